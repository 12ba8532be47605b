package model

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// HoldingLeaders returns the kind with a controller that holds the pods of leaders.
func (k Kind) HoldingLeaders() Kind {
	k.HoldsLeaders = true
	newReconciler := k.NewReconciler
	k.NewReconciler = func(cluster controller.Cluster, options controller.Options) (reconcile.Reconciler, error) {
		options.HoldLeaders = true
		return newReconciler(cluster, options)
	}
	return k
}

// IsLetGo reports whether an object is being deleted, its grace period is over, and only its finalizers keep it.
func IsLetGo(object client.Object) bool {
	return object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) > 0 &&
		ptr.Deref(object.GetDeletionGracePeriodSeconds(), 1) == 0
}

// shortenGrace ends the grace period of a pod that is being deleted and has finalizers. It sets the deletion timestamp
// to the time at which the deletion was requested.
func (c *Cluster) shortenGrace(key string, pod *corev1.Pod) {
	grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	if grace == 0 {
		return
	}
	pod = copyOf(pod)
	pod.DeletionTimestamp = new(metav1.NewTime(policy.DeletedAt(pod)).Rfc3339Copy())
	pod.DeletionGracePeriodSeconds = new(int64(0))
	c.put(key, pod)
}

// patchPod applies a strategic merge patch that removes finalizers from a pod. If the pod is being deleted and its
// grace period is over, the removal of the last finalizer removes the pod. patchPod returns NotFound if the pod does
// not exist, and Conflict if the resourceVersion in the patch is not the current one.
func (c *Cluster) patchPod(pod *corev1.Pod, patch client.Patch) error {
	key := c.keyOf(pod)
	current, ok := c.Live()[key].(*corev1.Pod)
	if !ok {
		return notFound(kindNames[Pods], pod.Name)
	}
	data, err := patch.Data(pod)
	if err != nil {
		return err
	}
	var parts struct {
		Metadata struct {
			ResourceVersion string   `json:"resourceVersion"`
			Finalizers      []string `json:"$deleteFromPrimitiveList/finalizers"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if version := parts.Metadata.ResourceVersion; version != "" && version != current.ResourceVersion {
		return conflict(pod, "the object has been modified")
	}
	left := slices.DeleteFunc(slices.Clone(current.Finalizers), func(finalizer string) bool {
		return slices.Contains(parts.Metadata.Finalizers, finalizer)
	})
	switch {
	case len(left) == len(current.Finalizers):
	case len(left) == 0 && IsLetGo(current):
		c.put(key, nil)
	default:
		patched := copyOf(current)
		patched.Finalizers = left
		c.put(key, patched)
	}
	return nil
}

// isIndexed reports whether a pod matches a field selector of a list. The fields are the two indexes of the
// controller: pods by the UID of their owner, and held pods by the name of their job.
func isIndexed(pod *corev1.Pod, by fields.Requirement) bool {
	owner := metav1.GetControllerOf(pod)
	switch {
	case by.Field == "batch.tensorstack.dev/owner":
		return owner != nil && by.Value == string(owner.UID)
	case !view.IsHeld(pod):
		return false
	case owner != nil:
		return by.Value == owner.Name
	default:
		return by.Value == pod.Labels[batchv1beta1.LabelJobName]
	}
}
