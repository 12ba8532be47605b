package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/test/simulated"
)

// manyReplicas measures how soon a large job has all its pods, by turns on one control plane.
func manyReplicas(ctx context.Context, b *bench) error {
	times := map[string][]float64{}
	err := b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		for _, who := range []contender{theirs, ours} {
			if err := who.start(ctx, c); err != nil {
				return err
			}
		}
		for round := range b.scale.rounds {
			for _, who := range []contender{theirs, ours} {
				w := work{namespace: fmt.Sprintf("%s-%d", who.program, round), replicas: b.scale.manyReplicas}
				took, err := c.create(ctx, who, w)
				if err == nil {
					err = c.deleteNamespace(ctx, w.namespace)
				}
				if err != nil {
					return fmt.Errorf("%d replicas of %s: %w", w.replicas, who.name, err)
				}
				b.progress.Printf("%d replicas of %s: %.2f s", w.replicas, who.name, took.Seconds())
				times[who.name] = append(times[who.name], took.Seconds())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.record("replicas-time", median(times[ours.name]))
	b.record("batch-job-replicas-time", median(times[theirs.name]))
	b.record("replicas-to-batch-job", median(times[ours.name])/median(times[theirs.name]))
	return nil
}

// create creates one job, and returns the time until the last of its pods is created, once all of them run.
func (c *cluster) create(ctx context.Context, who contender, w work) (time.Duration, error) {
	if err := c.namespace(ctx, w.namespace); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := who.create(ctx, c, w, 0); err != nil {
		return 0, err
	}
	if err := c.podsAre(ctx, w.namespace, corev1.PodRunning, int(w.replicas)); err != nil {
		return 0, err
	}
	created, err := c.writes.selected(began, func(w2 write) bool { return w2.creates("pods") && w2.ObjectRef.Namespace == w.namespace })
	if err != nil {
		return 0, err
	}
	if len(created) != int(w.replicas) {
		return 0, fmt.Errorf("%d pods were created", len(created))
	}
	return created[len(created)-1].Done.Sub(began), nil
}
