package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

// contender runs the jobs that users create.
type contender struct {
	name string
	// start starts the contender.
	start func(ctx context.Context, c *cluster) error
	// create creates the i-th job as its user does.
	create func(ctx context.Context, c *cluster, w work, i int) error
	// kind is the kind of the jobs.
	kind client.Object
	// succeeded reports whether a job has succeeded.
	succeeded func(object any) bool
	// program is the name of the process of the controller. It is empty for the floor, which runs in this process.
	program string
}

var (
	// ours is the pytorch-controller.
	ours = contender{
		name: "PyTorchTrainingJob",
		start: func(ctx context.Context, c *cluster) error {
			if err := c.runPyTorchController(ctx, pytorchController); err != nil {
				return err
			}
			_, err := c.leads(ctx, pytorchController)
			return err
		},
		create: func(ctx context.Context, c *cluster, w work, i int) error {
			return c.Client.Create(ctx, w.trainingJob(i))
		},
		kind: &pytorchv1beta1.PyTorchTrainingJob{},
		succeeded: func(object any) bool {
			job, ok := object.(*pytorchv1beta1.PyTorchTrainingJob)
			return ok && job.Status.Phase == batchv1beta1.JobPhaseSucceeded
		},
		program: pytorchController,
	}
	// theirs is the controller of batch/v1 Jobs.
	theirs = contender{
		name:  "batch/v1 Job",
		start: func(ctx context.Context, c *cluster) error { return c.runJobController(ctx) },
		create: func(ctx context.Context, c *cluster, w work, i int) error {
			return c.createBatchJob(ctx, w, i, w.batchJob(i))
		},
		kind: &batchv1.Job{},
		succeeded: func(object any) bool {
			job, ok := object.(*batchv1.Job)
			return ok && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
				return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
			})
		},
		program: jobController,
	}
	// theirsThatWait is theirs with an init container that waits for the leader's name. The pytorch-controller adds the
	// same init container to all pods except the leader's. The pods of a Job have one template, so the leader waits too.
	theirsThatWait = contender{
		name:  "batch/v1 Job that waits",
		start: theirs.start,
		create: func(ctx context.Context, c *cluster, w work, i int) error {
			job := w.batchJob(i)
			peers := framework.Peers{Image: image}
			spec := &job.Spec.Template.Spec
			if err := peers.AddWait(framework.Member{}, spec, spec.Containers[0], []string{w.leader(i)}); err != nil {
				return err
			}
			return c.createBatchJob(ctx, w, i, job)
		},
		kind:      theirs.kind,
		succeeded: theirs.succeeded,
		program:   theirs.program,
	}
)

// createBatchJob creates the Service of the i-th job and then the batch/v1 Job.
func (c *cluster) createBatchJob(ctx context.Context, w work, i int, job *batchv1.Job) error {
	if err := c.Client.Create(ctx, w.service(i, map[string]string{batchv1.JobNameLabel: job.Name})); err != nil {
		return err
	}
	return c.Client.Create(ctx, job)
}

// result is the result of a race.
type result struct {
	// took is the time from the first request to create a job to the last success.
	took time.Duration
	// cpu is the CPU time of the contender's program.
	cpu time.Duration
	// writes is the number of writes by the contender's program, except writes to events. The field events is the number
	// of writes to events.
	writes, events int
}

// race lets a contender run jobs on a new control plane, at most atOnce of them at the same time.
func (b *bench) race(ctx context.Context, who contender, jobs, atOnce int) (r result, err error) {
	w := work{replicas: replicas, ends: true}
	err = b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		for i := 0; i < jobs; i += jobsPerNamespace {
			if err := c.namespace(ctx, w.of(i).namespace); err != nil {
				return err
			}
		}
		if err := who.start(ctx, c); err != nil {
			return err
		}
		var profiles errgroup.Group
		if b.options.Profiles != "" && who.name == ours.name {
			profiles.Go(func() error { return c.profile(ctx, who.program) })
		}
		idle, err := who.usage(c)
		if err != nil {
			return err
		}
		began := time.Now()
		ended, err := c.runJobs(ctx, who, w, jobs, atOnce)
		if err := errors.Join(err, profiles.Wait()); err != nil {
			return err
		}
		r.took = ended.Sub(began)
		if who.program == "" {
			return nil
		}
		if err := c.settled(ctx, who.program); err != nil { // writes after the last success also count
			return err
		}
		usage, err := who.usage(c)
		if err != nil {
			return err
		}
		r.cpu = usage.CPU - idle.CPU
		for write, err := range c.writes.since(began) {
			switch {
			case err != nil:
				return err
			case !write.of(who.user()) || write.elects():
			case write.isEvent():
				r.events++
			default:
				r.writes++
			}
		}
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("%d jobs of %s: %w", jobs, who.name, err)
	}
	b.progress.Printf("%d jobs of %s: %.1f s, %.2f CPU s, %.2f writes and %.2f events per job", jobs, who.name,
		r.took.Seconds(), r.cpu.Seconds(), float64(r.writes)/float64(jobs), float64(r.events)/float64(jobs))
	return r, nil
}

// usage returns the resource usage of the contender's program. It is zero if the contender has no program.
func (who contender) usage(c *cluster) (simulated.Usage, error) {
	if who.program == "" {
		return simulated.Usage{}, nil
	}
	return c.Usage(who.program)
}

// user returns the user name of the contender's program.
func (who contender) user() string {
	if who.program == jobController {
		return "system:" + jobController
	}
	return who.program
}

// runJobs creates the jobs. It creates each job as soon as fewer than atOnce jobs are unfinished. It returns when all
// jobs and all their pods have succeeded. The result is the time of the last success of a job or a pod.
func (c *cluster) runJobs(ctx context.Context, who contender, w work, jobs, atOnce int) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not all jobs have succeeded within %s", timeout))
	defer cancel()
	running := make(chan struct{}, atOnce)
	jobsDone, err := c.succeeded(ctx, who.kind, who.succeeded, jobs, func() { <-running })
	if err != nil {
		return time.Time{}, err
	}
	podsDone, err := c.succeeded(ctx, &corev1.Pod{}, podSucceeded, jobs*int(w.replicas), func() {})
	if err != nil {
		return time.Time{}, err
	}
	err = c.inParallel(ctx, jobs, func(ctx context.Context, i int) error {
		select {
		case running <- struct{}{}:
			return who.create(ctx, c, w.of(i), i)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return time.Time{}, err
	}
	var last time.Time
	for _, done := range []<-chan time.Time{jobsDone, podsDone} {
		select {
		case at := <-done:
			if at.After(last) {
				last = at
			}
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
	return last, nil
}

func podSucceeded(object any) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.Status.Phase == corev1.PodSucceeded
}

// succeeded watches the objects of a kind. When an object succeeds, it calls the function in the parameter each. It
// returns a channel that receives the time when n objects have succeeded.
func (c *cluster) succeeded(
	ctx context.Context, kind client.Object, has func(any) bool, n int, each func(),
) (<-chan time.Time, error) {
	done := make(chan time.Time, 1)
	count := 0 // needs no lock, because follow never calls this function concurrently
	return done, c.follow(ctx, kind, labels.Everything(), func(before, after any) {
		if has(before) || !has(after) {
			return
		}
		each()
		if count++; count == n {
			done <- time.Now()
		}
	})
}

// inParallel calls the function do with each number from 0 to n-1. It makes several calls at the same time.
func (c *cluster) inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inParallel)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// throughput measures how long each contender takes for many jobs that are created at the same time.
func throughput(ctx context.Context, b *bench) error {
	contenders := []contender{theirs, theirsThatWait, ours, floor}
	if b.options.Quick {
		contenders = []contender{ours}
	}
	times, cpu, jobs := map[string][]float64{}, map[string][]float64{}, float64(b.scale.jobs)
	for range b.scale.rounds {
		for _, who := range contenders {
			r, err := b.race(ctx, who, b.scale.jobs, b.scale.jobs)
			if err != nil {
				return err
			}
			times[who.name] = append(times[who.name], r.took.Seconds())
			cpu[who.name] = append(cpu[who.name], r.cpu.Seconds())
			switch who.name {
			case ours.name:
				b.record("writes-per-job", float64(r.writes)/jobs)
				b.record("events-per-job", float64(r.events)/jobs)
			case theirs.name:
				b.record("batch-job-writes-per-job", float64(r.writes)/jobs)
			}
		}
	}
	if b.options.Quick {
		return nil
	}
	b.record("jobs-time", median(times[ours.name]))
	b.record("batch-job-jobs-time", median(times[theirs.name]))
	b.record("waiting-batch-job-jobs-time", median(times[theirsThatWait.name]))
	b.record("floor-jobs-time", median(times[floor.name]))
	b.record("jobs-to-batch-job", median(times[ours.name])/median(times[theirs.name]))
	b.record("jobs-to-waiting-batch-job", median(times[ours.name])/median(times[theirsThatWait.name]))
	b.record("jobs-to-floor", median(times[ours.name])/median(times[floor.name]))
	b.record("cpu", median(cpu[ours.name])/jobs*1000)
	b.record("cpu-to-batch-job", median(cpu[ours.name])/median(cpu[theirs.name]))
	b.record("cpu-to-waiting-batch-job", median(cpu[ours.name])/median(cpu[theirsThatWait.name]))
	return nil
}

// growth measures whether the time per job grows with the number of jobs. It compares the time of one run of many
// jobs with the median time of several runs of few jobs. In all runs, the same number of jobs run at the same time,
// so kwok is equally busy. The growth with batch/v1 Jobs shows how much growth Kubernetes itself causes.
func growth(ctx context.Context, b *bench) error {
	for _, g := range []struct {
		figure string
		who    contender
	}{{"batch-job-growth", theirs}, {"growth", ours}} {
		var few []float64
		for range b.scale.rounds {
			r, err := b.race(ctx, g.who, b.scale.jobs, b.scale.jobsAtOnce)
			if err != nil {
				return err
			}
			few = append(few, r.took.Seconds())
		}
		many, err := b.race(ctx, g.who, b.scale.manyJobs, b.scale.jobsAtOnce)
		if err != nil {
			return err
		}
		b.record(g.figure, many.took.Seconds()/median(few)*float64(b.scale.jobs)/float64(b.scale.manyJobs))
	}
	return nil
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}
