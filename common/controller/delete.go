package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/plan"
)

// deleteJob deletes the job if it is unchanged since it was read. The objects that it owns are garbage collected.
func (r *Reconciler[J]) deleteJob(ctx context.Context, job J) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	err := r.cluster.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the job after its time to live: %w", err)
	}
	ctrllog.FromContext(ctx).Info("Expired", "phase", job.JobStatus().Phase, "completionTime",
		job.JobStatus().CompletionTime)
	return nil
}

// releaseAndDelete removes FinalizerLeader from the pods that the decision releases, and then deletes the pods that
// the decision deletes. Preconditions ensure that it does not delete a later pod of the same name. If it cannot
// release a pod, it deletes the pods nevertheless.
func (r *Reconciler[J]) releaseAndDelete(ctx context.Context, job types.NamespacedName, d plan.Decision) error {
	released, err := r.release(ctx, job, d.Releases)
	return errors.Join(
		err,
		r.deletePods(ctx, job, d.Deletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
		}),
		r.deletePods(ctx, job, d.CleanUps, func(pod *corev1.Pod) []client.DeleteOption {
			seen := client.Preconditions{UID: &pod.UID}
			seen.ResourceVersion = new(cmp.Or(released[pod.UID], pod.ResourceVersion))
			return []client.DeleteOption{seen}
		}),
		r.deletePods(ctx, job, d.ForceDeletes, func(pod *corev1.Pod) []client.DeleteOption {
			return []client.DeleteOption{client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0)}
		}),
	)
}

func (r *Reconciler[J]) deletePods(
	ctx context.Context, job types.NamespacedName, pods []*corev1.Pod, options func(*corev1.Pod) []client.DeleteOption,
) error {
	goOn := func(error) bool { return true } // the deletion of another pod might succeed
	return inParallel(r.options.MaxRequests, len(pods), goOn, func(i int) error {
		err := r.cluster.Client.Delete(ctx, pods[i], options(pods[i])...)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the pod of this UID is gone or has changed: its next event requeues the job
		}
		if err != nil {
			return fmt.Errorf("deleting pod %s: %w", pods[i].Name, err)
		}
		r.options.Memory.written.add(job, pods[i].Name)
		return nil
	})
}
