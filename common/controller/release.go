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
	"tensorstack.dev/jobs/common/plan"
)

// heldIndex indexes the pods that are held by the name of their job.
const heldIndex = "batch.tensorstack.dev/held"

// jobsOfHeld returns the name of the job of a pod that is held; nothing for other pods.
func (r *Reconciler[J]) jobsOfHeld(pod client.Object) []string {
	if !plan.IsHeld(pod) {
		return nil
	}
	if name := r.jobOf(pod); name != "" {
		return []string{name}
	}
	return nil
}

// release releases pods of a job that are held. It returns the versions that they have then. A pod that is gone or has
// changed is left alone: its next event has the job reconciled.
func (r *Reconciler[J]) release(
	ctx context.Context, job types.NamespacedName, pods []*corev1.Pod,
) (map[types.UID]string, error) {
	if len(pods) == 0 {
		return nil, nil
	}
	versions := make([]string, len(pods))
	goOn := func(error) bool { return true }
	err := inParallel(len(pods), goOn, func(i int) (err error) {
		versions[i], err = r.releasePod(ctx, pods[i])
		return err
	})
	released := make(map[types.UID]string, len(pods))
	for i, pod := range pods {
		if versions[i] != "" {
			released[pod.UID] = versions[i]
			r.options.Memory.noteWrite(job, pod.Name)
		}
	}
	return released, err
}

// releasePod removes the finalizer of leaders from the version of a pod that was seen, and keeps those of others. It
// returns the version that the pod has then, or nothing if the pod is gone, has changed, or is not held.
func (r *Reconciler[J]) releasePod(
	ctx context.Context, pod metav1.Object, options ...client.PatchOption,
) (version string, err error) {
	if !plan.IsHeld(pod) {
		return "", nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		//mutant:a pod is released that was never seen =>
		"resourceVersion":                     pod.GetResourceVersion(),
		"$deleteFromPrimitiveList/finalizers": []string{batchv1beta1.FinalizerLeader},
	}})
	if err != nil {
		return "", err
	}
	released := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()}}
	err = r.client.Patch(ctx, released, client.RawPatch(types.StrategicMergePatchType, patch), options...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("removing the finalizer %s of pod %s: %w", batchv1beta1.FinalizerLeader, pod.GetName(), err)
	}
	return released.ResourceVersion, nil
}

// releaseStrays releases the pods that are held for a job of the name but are not the job's: since the job is gone, or
// another one has its name, or somebody changed the owner or the labels of the pod. The UID is that of the job, empty
// if there is none.
func (r *Reconciler[J]) releaseStrays(ctx context.Context, job types.NamespacedName, uid types.UID) error {
	if err := r.releaseRelabelled(ctx, job); err != nil {
		return err
	}
	var held corev1.PodList
	err := r.client.List(ctx, &held, client.InNamespace(job.Namespace), client.MatchingFields{heldIndex: job.Name},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return err
	}
	isRead := false
	for i := range held.Items {
		pod := &held.Items[i]
		if plan.IsControlledBy(pod, uid) {
			continue
		}
		if !isRead { // the cache may have an earlier job of the name, or none yet
			if uid, err = r.liveUID(ctx, job); err != nil {
				return err
			}
			isRead = true
		}
		//mutant:the leader of a job that is gone is held for ever => if plan.IsControlledBy(pod, uid) || uid == "" {
		if plan.IsControlledBy(pod, uid) {
			continue
		}
		if _, err := r.releasePod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// liveUID returns the UID of the job that the API server has, empty if it has none of the name.
func (r *Reconciler[J]) liveUID(ctx context.Context, job types.NamespacedName) (types.UID, error) {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(r.gvk)
	if err := r.apiReader.Get(ctx, job, newest); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the job before a pod is released: %w", err)
	}
	return newest.GetUID(), nil
}

// releaseRelabelled releases the pods of the job that left the cache while they were held, and are still there:
// somebody changed the label by which the cache selects.
func (r *Reconciler[J]) releaseRelabelled(ctx context.Context, job types.NamespacedName) error {
	left := r.options.Memory.takeLeft(job)
	for i, name := range left {
		if err := r.releaseIfRelabelled(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}); err != nil {
			for _, name := range left[i:] {
				r.options.Memory.noteLeft(job, name)
			}
			return err
		}
	}
	return nil
}

// releaseIfRelabelled releases a pod that is held and that the cache does not select.
func (r *Reconciler[J]) releaseIfRelabelled(ctx context.Context, key client.ObjectKey) error {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := r.apiReader.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.Labels[batchv1beta1.LabelJobKind] == r.gvk.Kind {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading pod %s, whose labels may have been changed: %w", key.Name, err)
	}
	_, err = r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency)
	return err
}
