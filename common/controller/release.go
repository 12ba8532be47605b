package controller

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// heldIndex is the index of held pods by the name of their job. A held pod has batchv1beta1.FinalizerLeader.
const heldIndex = "batch.tensorstack.dev/held"

// jobsOfHeld returns the name of the job of a held pod, and nil for other pods.
func (r *Reconciler[J]) jobsOfHeld(pod client.Object) []string {
	if name := r.jobOf(pod); name != "" && view.IsHeld(pod) {
		return []string{name}
	}
	return nil
}

// release releases held pods of a job. It returns the new resource versions of the released pods, by UID. It ignores
// pods that are gone or have changed, because their next event requeues the job.
func (r *Reconciler[J]) release(
	ctx context.Context, job types.NamespacedName, pods []*corev1.Pod,
) (map[types.UID]string, error) {
	if len(pods) == 0 {
		return nil, nil
	}
	versions := make([]string, len(pods))
	goOn := func(error) bool { return true }
	err := inParallel(r.options.MaxRequests, len(pods), goOn, func(i int) (err error) {
		versions[i], err = r.releasePod(ctx, pods[i])
		return err
	})
	released := make(map[types.UID]string, len(pods))
	for i, pod := range pods {
		if versions[i] != "" {
			released[pod.UID] = versions[i]
			r.options.Memory.written.add(job, pod.Name)
		}
	}
	return released, err
}

// releasePod removes FinalizerLeader from a pod, unless the pod was changed since it was read. Other finalizers stay.
// releasePod returns the new resource version. The version is empty if the pod is gone, was changed, or is not held.
func (r *Reconciler[J]) releasePod(
	ctx context.Context, pod metav1.Object, options ...client.PatchOption,
) (version string, err error) {
	if !view.IsHeld(pod) {
		return "", nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion":                     pod.GetResourceVersion(),
		"$deleteFromPrimitiveList/finalizers": []string{batchv1beta1.FinalizerLeader},
	}})
	if err != nil {
		return "", err
	}
	released := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()}}
	err = r.cluster.Client.Patch(ctx, released, client.RawPatch(types.StrategicMergePatchType, patch), options...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("removing the finalizer %s of pod %s: %w", batchv1beta1.FinalizerLeader, pod.GetName(), err)
	}
	return released.ResourceVersion, nil
}

// releaseStrays releases held pods that name the job but do not belong to it. Such a pod exists if its job is gone,
// if its job was replaced by another one of the same name, or if somebody changed the owner or the labels of the pod.
// The parameter uid is the UID of the job that the caller has read. Empty means that there is no job.
func (r *Reconciler[J]) releaseStrays(ctx context.Context, job types.NamespacedName, uid types.UID) error {
	if err := r.releaseRelabelled(ctx, job); err != nil {
		return err
	}
	var held corev1.PodList
	err := r.cluster.Client.List(ctx, &held, client.InNamespace(job.Namespace), client.MatchingFields{heldIndex: job.Name},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return err
	}
	isRead := false
	for i := range held.Items {
		pod := &held.Items[i]
		if view.IsControlledBy(pod, uid) {
			continue
		}
		if !isRead { // the cache can have an earlier job of the same name, or not have the job yet
			if uid, err = r.liveUID(ctx, job); err != nil {
				return err
			}
			isRead = true
		}
		if view.IsControlledBy(pod, uid) {
			continue
		}
		if _, err := r.releasePod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// liveUID reads the UID of a job from the API server. Empty means that there is no such job.
func (r *Reconciler[J]) liveUID(ctx context.Context, job types.NamespacedName) (types.UID, error) {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(r.gvk)
	if err := r.cluster.APIReader.Get(ctx, job, newest); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the job before releasing its pods: %w", err)
	}
	return newest.GetUID(), nil
}

// releaseRelabelled releases those held pods of the job that left the cache but still exist. They left the cache
// because somebody changed the label by which the cache selects pods.
func (r *Reconciler[J]) releaseRelabelled(ctx context.Context, job types.NamespacedName) error {
	left := r.options.Memory.left.take(job)
	for i, name := range left {
		if err := r.releaseIfRelabelled(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}); err != nil {
			for _, name := range left[i:] {
				r.options.Memory.left.add(job, name)
			}
			return err
		}
	}
	return nil
}

// releaseIfRelabelled releases a held pod if its labels no longer match the selector of the cache.
func (r *Reconciler[J]) releaseIfRelabelled(ctx context.Context, key client.ObjectKey) error {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := r.cluster.APIReader.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.Labels[batchv1beta1.LabelJobKind] == r.gvk.Kind {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading pod %s, which left the cache: %w", key.Name, err)
	}
	_, err = r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency)
	return err
}
