package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/test/simulated"
)

// memory measures the peak resident memory of the controller in a cluster with many pods of its jobs and even more
// other pods. It measures twice: after all pods have been created, and after the controller has restarted and listed
// all pods.
func memory(ctx context.Context, b *bench) error {
	return b.start(ctx, simulated.None, func(ctx context.Context, c *cluster) error {
		if err := c.runningJobs(ctx, work{namespace: benchNamespace, replicas: replicas}, b.scale.ownJobs); err != nil {
			return err
		}
		const foreign = "foreign"
		if err := c.namespace(ctx, foreign); err != nil {
			return err
		}
		err := c.inParallel(ctx, b.scale.foreignPods, func(ctx context.Context, i int) error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: foreign, Name: fmt.Sprintf("pod-%d", i)},
				Spec:       work{queue: "none"}.template(i).Spec,
			}
			return c.Client.Create(ctx, pod)
		})
		if err != nil {
			return err
		}
		before, err := c.Usage(pytorchController)
		if err != nil {
			return err
		}
		if err := c.restart(ctx, pytorchController); err != nil {
			return err
		}
		after, err := c.Usage(pytorchController)
		if err != nil {
			return err
		}
		b.progress.Printf("memory: %d MiB, peak %d MiB; after a restart: %d MiB, peak %d MiB",
			before.Resident>>20, before.PeakResident>>20, after.Resident>>20, after.PeakResident>>20)
		b.record("memory", float64(max(before.PeakResident, after.PeakResident))/(1<<20))
		return nil
	})
}
