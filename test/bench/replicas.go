package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/test/simulated"
)

// manyReplicas measures how soon a large job has all its pods. The contenders take turns on one control plane, and each
// job has a separate node.
func manyReplicas(ctx context.Context, b *bench) error {
	times := map[string][]float64{}
	err := b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		for _, who := range []contender{theirs, ours} { // theirsThatWait uses the controller of theirs
			if err := who.start(ctx, c); err != nil {
				return err
			}
		}
		contenders := []contender{theirs, theirsThatWait, ours}
		for i := range len(contenders) * b.scale.largeRounds {
			who := contenders[i%len(contenders)]
			took, err := c.create(ctx, who, work{
				namespace: fmt.Sprintf("%s-%d", benchNamespace, i), replicas: b.scale.manyReplicas,
			}, i)
			if err != nil {
				return fmt.Errorf("%d replicas of %s: %w", b.scale.manyReplicas, who.name, err)
			}
			b.progress.Printf("%d replicas of %s: %.2f s", b.scale.manyReplicas, who.name, took.Seconds())
			times[who.name] = append(times[who.name], took.Seconds())
			if err := c.settled(ctx, who.program); err != nil { // late writes must not slow the next turn down
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.record("replicas-time", median(times[ours.name]))
	b.record("batch-job-replicas-time", median(times[theirs.name]))
	b.record("waiting-batch-job-replicas-time", median(times[theirsThatWait.name]))
	b.record("replicas-to-batch-job", median(times[ours.name])/median(times[theirs.name]))
	b.record("replicas-to-waiting-batch-job", median(times[ours.name])/median(times[theirsThatWait.name]))
	return nil
}

// create creates the i-th job and waits until all its pods run. It returns the time from the request to create the job
// to the creation of the last pod.
func (c *cluster) create(ctx context.Context, who contender, w work, i int) (time.Duration, error) {
	if err := c.namespace(ctx, w.namespace); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := who.create(ctx, c, w, i); err != nil {
		return 0, err
	}
	if err := c.podsAre(ctx, w.namespace, corev1.PodRunning, int(w.replicas)); err != nil {
		return 0, err
	}
	created, err := c.writes.selected(began,
		func(w2 write) bool { return w2.createsPod() && w2.ObjectRef.Namespace == w.namespace })
	if err != nil {
		return 0, err
	}
	if len(created) != int(w.replicas) {
		return 0, fmt.Errorf("%d pods were created, want %d", len(created), w.replicas)
	}
	return created[len(created)-1].Done.Sub(began), nil
}
