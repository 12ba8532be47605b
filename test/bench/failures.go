package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

// standby is the copy of the pytorch-controller that waits for the other to go.
const standby = pytorchController + "-standby"

// failures measures how soon what failed is replaced: a replica, and the leader of the controllers.
func failures(ctx context.Context, b *bench) error {
	return b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		w := work{namespace: benchNamespace, replicas: replicas, alone: true}
		if err := c.runningJobs(ctx, w, b.scale.jobs); err != nil {
			return err
		}
		if err := c.replacements(ctx, w); err != nil {
			return err
		}
		if err := c.runPyTorchController(ctx, standby); err != nil {
			return err
		}
		job := b.scale.jobs // counts down, to jobs with no failure yet
		for _, way := range []struct {
			figure string
			end    func(string) error
			// expires says that the Lease is not given up.
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
		return nil
	})
}

// failureInterval is the time between two failures of replicas: it is how soon one is replaced that counts, not how many are.
const failureInterval = 250 * time.Millisecond

// replacements has one replica of many jobs fail, and measures how soon each is replaced.
func (c *cluster) replacements(ctx context.Context, w work) error {
	began := time.Now()
	failedAt := map[string]time.Time{}
	ticker := time.NewTicker(failureInterval)
	defer ticker.Stop()
	for i := range c.bench.scale.failures {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		name := w.name(i) + "-worker-1"
		failedAt[name] = time.Now()
		if err := c.fail(ctx, w.namespace, name); err != nil {
			return err
		}
	}
	if err := c.allRun(ctx, w); err != nil {
		return err
	}
	created, err := c.writes.selected(began, func(w write) bool { return w.creates("pods") })
	if err != nil {
		return err
	}
	if len(created) != len(failedAt) {
		return fmt.Errorf("%d replicas failed, and %d pods were created", len(failedAt), len(created))
	}
	var took []time.Duration
	for _, w := range created {
		took = append(took, w.Done.Sub(failedAt[w.ObjectRef.Name]))
	}
	slices.Sort(took)
	c.bench.progress.Printf("%d replacements: median %.3f s, at most %.3f s", len(took), took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
	c.bench.record("replacement-p99", took[len(took)*99/100].Seconds())
	return nil
}

// fail ends a pod as a kubelet does whose container has failed.
func (c *cluster) fail(ctx context.Context, namespace, name string) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":"Failed","containerStatuses":[{"name":"pytorch","image":"none","imageID":"","ready":false,"restartCount":0,
		"state":{"terminated":{"exitCode":1,"reason":"Error","finishedAt":%q}}}]}}`, time.Now().UTC().Format(time.RFC3339))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return c.Client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
}

// failover ends the leader, has a replica of a job fail, and returns how long after the Lease was free the other copy did something about
// it. The one that ended is then started again.
func (c *cluster) failover(ctx context.Context, w work, job int, end func(string) error, expires bool) (time.Duration, error) {
	lease, err := c.leads(ctx, pytorchController)
	if err != nil {
		return 0, err
	}
	leader, next, err := c.leader()
	if err != nil {
		return 0, err
	}
	if err := c.settled(ctx, next); err != nil { // it stands by for a while
		return 0, err
	}
	if err := end(leader); err != nil {
		return 0, err
	}
	ended := time.Now()
	if err := c.fail(ctx, w.namespace, w.name(job)+"-worker-1"); err != nil {
		return 0, err
	}
	var useful []write
	err = c.eventually(ctx, next+" does something", func(context.Context) (bool, error) {
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
	free := renewals[len(renewals)-1].Done.Time // it was given up
	if expires {
		free = free.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	}
	if err := c.allRun(ctx, w); err != nil {
		return 0, err
	}
	return useful[0].Done.Sub(free), c.Restart(ctx, leader)
}

// leader returns the copy that renewed the Lease last, and the other one.
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
