package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

const (
	schedulerController = "scheduler-controller"
	// benchNamespace is the namespace of the jobs. In measurements with several namespaces, it is the prefix of their
	// names.
	benchNamespace = "bench"
)

// runningJobs starts the pytorch-controller and creates the jobs. It returns when the statuses of all jobs are Running.
func (c *cluster) runningJobs(ctx context.Context, w work, jobs int) error {
	if err := c.namespace(ctx, w.namespace); err != nil {
		return err
	}
	if err := ours.start(ctx, c); err != nil {
		return err
	}
	if err := c.inParallel(ctx, jobs,
		func(ctx context.Context, i int) error { return ours.create(ctx, c, w, i) }); err != nil {
		return err
	}
	return c.allRun(ctx, w)
}

// allRun waits until the status of each job in the namespace is Running with all replicas ready.
func (c *cluster) allRun(ctx context.Context, w work) error {
	return c.eventually(ctx, "all jobs run", func(ctx context.Context) (bool, error) {
		list := &pytorchv1beta1.PyTorchTrainingJobList{}
		if err := c.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return false, err
		}
		waits := func(job pytorchv1beta1.PyTorchTrainingJob) bool {
			return job.Status.Phase != batchv1beta1.JobPhaseRunning || job.Status.Ready != fmt.Sprintf("%[1]d/%[1]d", w.replicas)
		}
		return !slices.ContainsFunc(list.Items, waits), nil
	})
}

// restart ends a controller as a kubelet does and starts it again. It returns when the controller has reconciled all
// jobs.
func (c *cluster) restart(ctx context.Context, controller string) error {
	if err := c.Terminate(controller); err != nil {
		return err
	}
	if err := c.Restart(ctx, controller); err != nil {
		return err
	}
	if _, err := c.leads(ctx, controller); err != nil {
		return err
	}
	return c.settled(ctx, controller)
}

// settled waits until a controller has used almost no CPU time for 6 seconds. By default, the controllers delay
// status changes by less than 6 seconds to batch them, so the controller has then written all of them.
func (c *cluster) settled(ctx context.Context, controller string) error {
	const interval, idle = 6 * time.Second, 100 * time.Millisecond
	last := time.Duration(-1)
	return c.eventually(ctx, controller+" is idle", func(ctx context.Context) (bool, error) {
		usage, err := c.Usage(controller)
		if err != nil {
			return false, err
		}
		used := usage.CPU - last
		first := last < 0
		last = usage.CPU
		if !first && used < idle {
			return true, nil
		}
		select {
		case <-time.After(interval):
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
}

// idle counts the writes of the controllers while jobs run and nothing changes, and after the controllers restart.
// Most of the jobs run as gangs. Kueue has admitted the others. At the end, kueueWrites counts how many more writes a
// job needs if Kueue admits it.
func idle(ctx context.Context, b *bench) error {
	return b.start(ctx, simulated.Native, func(ctx context.Context, c *cluster) error {
		if err := c.runController(ctx, schedulerController, schedulerController, "--engine=native"); err != nil {
			return err
		}
		if err := c.queue(ctx, "default"); err != nil {
			return err
		}
		if err := c.InstallKueueCRDs(); err != nil {
			return err
		}
		if err := c.runningJobs(ctx, work{
			namespace: benchNamespace, replicas: replicas, queue: "default",
		}, b.scale.jobs); err != nil {
			return err
		}
		if err := c.beginJobs(ctx, atRest.work()); err != nil {
			return err
		}
		controllers := []string{pytorchController, schedulerController}
		for _, controller := range controllers {
			if err := c.settled(ctx, controller); err != nil {
				return err
			}
		}
		b.progress.Printf("%d jobs run as gangs; expecting no writes for %s", b.scale.jobs, b.scale.quiet)
		quietSince := time.Now()
		select {
		case <-time.After(b.scale.quiet):
		case <-ctx.Done():
			return ctx.Err()
		}
		restartedAt := time.Now()
		for _, controller := range controllers {
			if err := c.restart(ctx, controller); err != nil {
				return err
			}
		}
		writes, err := c.writes.selected(quietSince, func(w write) bool {
			return (w.of(pytorchController) || w.of(schedulerController)) && !w.elects()
		})
		if err != nil {
			return err
		}
		for i, w := range writes {
			if i < 10 {
				b.progress.Printf("unexpected write: %s", w)
			}
		}
		counts := map[string]float64{}
		for _, w := range writes {
			switch {
			case w.ObjectRef.Namespace == atRest.namespace:
				counts["kueue-idle-writes"]++
			case w.Begun.Time.Before(restartedAt):
				counts["idle-writes"]++
			default:
				counts["resync-writes"]++
			}
		}
		for _, figure := range []string{"idle-writes", "resync-writes", "kueue-idle-writes"} {
			b.record(figure, counts[figure])
		}
		return c.kueueWrites(ctx)
	})
}
