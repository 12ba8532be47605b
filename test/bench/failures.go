package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

// standby is the name of the second copy of the pytorch-controller.
const standby = pytorchController + "-standby"

// failures measures how soon a failed replica is replaced, and how soon the standby takes over from the leading
// controller.
func failures(ctx context.Context, b *bench) error {
	return b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		w := work{namespace: benchNamespace, replicas: replicas, alone: true}
		if err := c.runningJobs(ctx, w, b.scale.jobs); err != nil {
			return err
		}
		p99, err := c.replacements(ctx, w, 0)
		if err != nil {
			return err
		}
		b.record("replacement-p99", p99.Seconds())
		if err := c.runPyTorchController(ctx, standby); err != nil {
			return err
		}
		job := b.scale.jobs // failovers use the last jobs, in which no replica has failed yet
		for _, way := range []struct {
			figure string
			end    func(string) error
			// expires is true if the leader does not release its Lease, so that the standby must wait until the Lease expires.
			expires bool
		}{
			{figure: "failover-release", end: c.Terminate},
			{figure: "failover-crash", end: c.Kill, expires: true},
		} {
			var worst time.Duration
			for range b.scale.failovers {
				job--
				took, err := c.failover(ctx, w, job, way.end, way.expires)
				if err != nil {
					return fmt.Errorf("%s: %w", way.figure, err)
				}
				b.progress.Printf("%s: %.2f s", way.figure, took.Seconds())
				worst = max(worst, took)
			}
			b.record(way.figure, worst.Seconds())
		}
		p99, err = c.replacementsInBurst(ctx, w)
		if err != nil {
			return err
		}
		b.record("replacement-burst-p99", p99.Seconds())
		return nil
	})
}

// failureInterval is the time between two failures of replicas. The failures are spread over time, because the
// benchmark measures the latency of replacements and not their throughput.
const failureInterval = 250 * time.Millisecond

// replacements makes one replica fail in each of several jobs. The parameter first is the index of the first of these
// jobs. The result is the 99th percentile of the time from a failure to the creation of the replacement.
func (c *cluster) replacements(ctx context.Context, w work, first int) (time.Duration, error) {
	began := time.Now()
	failedAt := map[string]time.Time{}
	ticker := time.NewTicker(failureInterval)
	defer ticker.Stop()
	for i := range c.bench.scale.failures {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		name := w.pod(first+i, 1)
		failedAt[name] = time.Now()
		if err := c.fail(ctx, w.namespace, name); err != nil {
			return 0, err
		}
	}
	var created []write
	err := c.eventually(ctx, "all failed replicas are replaced", func(context.Context) (_ bool, err error) {
		created, err = c.writes.selected(began,
			func(x write) bool { return x.createsPod() && x.ObjectRef.Namespace == w.namespace })
		return len(created) >= len(failedAt), err
	})
	if err != nil {
		return 0, err
	}
	if len(created) > len(failedAt) {
		return 0, fmt.Errorf("%d pods were created to replace %d failed replicas", len(created), len(failedAt))
	}
	if err := c.allRun(ctx, w); err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, w := range created {
		took = append(took, w.Done.Sub(failedAt[w.ObjectRef.Name]))
	}
	slices.Sort(took)
	c.bench.progress.Printf("%d replacements: median %.3f s, at most %.3f s", len(took), took[len(took)/2].Seconds(),
		took[len(took)-1].Seconds())
	return took[len(took)*99/100], nil
}

// replacementsInBurst measures the same time as the function replacements, but while users create as many jobs as
// already run. Replacements are more urgent than new jobs: the peers of a failed replica occupy nodes while they
// wait, and a new job occupies none.
func (c *cluster) replacementsInBurst(ctx context.Context, w work) (time.Duration, error) {
	jobs := c.bench.scale.jobs
	for i := jobs; i < 2*jobs; i += jobsPerNamespace {
		if err := c.namespace(ctx, w.of(i).namespace); err != nil {
			return 0, err
		}
	}
	var p99 time.Duration
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return c.inParallel(ctx, jobs,
			func(ctx context.Context, i int) error { return ours.create(ctx, c, w.of(jobs+i), jobs+i) })
	})
	group.Go(func() (err error) {
		p99, err = c.replacements(ctx, w, c.bench.scale.failures)
		return err
	})
	err := group.Wait()
	return p99, err
}

// fail writes the status of a pod as a kubelet does after the container has failed.
func (c *cluster) fail(ctx context.Context, namespace, name string) error {
	return c.setContainer(ctx, namespace, name, corev1.PodFailed, fmt.Sprintf(
		`"terminated":{"exitCode":1,"reason":"Error","finishedAt":%q}`, time.Now().UTC().Format(time.RFC3339)))
}

// setContainer writes the status of a pod as a kubelet does after the state of the container has changed. The argument
// state is the new state in JSON.
func (c *cluster) setContainer(ctx context.Context, namespace, name string, phase corev1.PodPhase, state string) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q,"containerStatuses":[{"name":"pytorch","image":"none","imageID":"","ready":%t,"restartCount":0,
		"state":{%s}}]}}`,
		phase, phase == corev1.PodRunning, state)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return c.Client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
}

// failover ends the leading copy of the controller and then makes a replica of a job fail. It returns the time from
// the release or the expiry of the Lease to the first useful write of the other copy. A write is useful if it
// succeeds, is not part of leader election, and does not write an event. Before it returns, failover restarts the
// copy that it ended.
func (c *cluster) failover(
	ctx context.Context, w work, job int, end func(string) error, expires bool,
) (time.Duration, error) {
	lease, err := c.leads(ctx, pytorchController)
	if err != nil {
		return 0, err
	}
	leader, next, err := c.leader()
	if err != nil {
		return 0, err
	}
	if err := c.settled(ctx, next); err != nil { // the other copy may have just started
		return 0, err
	}
	if err := end(leader); err != nil {
		return 0, err
	}
	ended := time.Now()
	if err := c.fail(ctx, w.namespace, w.pod(job, 1)); err != nil {
		return 0, err
	}
	var useful []write
	err = c.eventually(ctx, next+" writes more than its Lease", func(context.Context) (bool, error) {
		useful, err = c.writes.selected(ended, func(w write) bool {
			return w.of(next) && !w.elects() && !w.isEvent() && w.ResponseStatus.Code < 300
		})
		return len(useful) > 0, err
	})
	if err != nil {
		return 0, err
	}
	renewals, err := c.writes.selected(time.Time{}, func(w write) bool { return w.isLease() && w.of(leader) })
	if err != nil {
		return 0, err
	}
	free := renewals[len(renewals)-1].Done.Time // the release of the Lease, or the last renewal if the leader crashed
	if expires {
		free = free.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	}
	if err := c.allRun(ctx, w); err != nil {
		return 0, err
	}
	return useful[0].Done.Sub(free), c.Restart(ctx, leader)
}

// leader returns the name of the copy that renewed the Lease last, and the name of the other copy.
func (c *cluster) leader() (leader, next string, err error) {
	renewals, err := c.writes.selected(time.Time{}, write.isLease)
	if err != nil {
		return "", "", err
	}
	for _, w := range slices.Backward(renewals) {
		switch {
		case w.of(pytorchController):
			return pytorchController, standby, nil
		case w.of(standby):
			return standby, pytorchController, nil
		}
	}
	return "", "", errors.New("no copy of the controller has held the Lease")
}
