package model

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countPods is the resource name under which a ResourceQuota limits the number of pods, whether they have ended or
// not.
const countPods = corev1.ResourceName("count/pods")

// NewQuota returns a ResourceQuota for the given number of pods. In the object that the model stores, status.used
// counts only the pods of other jobs.
func NewQuota(pods int64) *corev1.ResourceQuota {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: JobKey.Namespace, Name: "few"}}
	quota.Status.Hard = corev1.ResourceList{countPods: *resource.NewQuantity(pods, resource.DecimalSI)}
	return quota
}

// Quota returns the ResourceQuota as the API server would: its status.used counts the pods of the job and those of
// other jobs. Nil means that there is no ResourceQuota.
func (o Objects) Quota() *corev1.ResourceQuota {
	quotas := ListOf[*corev1.ResourceQuota](o)
	if len(quotas) == 0 {
		return nil
	}
	shown := quotas[0].DeepCopy()
	used := shown.Status.Used[countPods]
	used.Add(*resource.NewQuantity(int64(len(o.Pods())), resource.DecimalSI))
	shown.Status.Used = corev1.ResourceList{countPods: used}
	return shown
}

// Room returns how many more pods the ResourceQuota allows. The second result is false if there is no ResourceQuota.
func (o Objects) Room() (int64, bool) {
	quota := o.Quota()
	if quota == nil {
		return 0, false
	}
	return quota.Status.Hard.Name(countPods, resource.DecimalSI).Value() -
		quota.Status.Used.Name(countPods, resource.DecimalSI).Value(), true
}

// UsedByOthers returns how many pods of other jobs use the ResourceQuota.
func (o Objects) UsedByOthers() int64 {
	for _, quota := range ListOf[*corev1.ResourceQuota](o) {
		return quota.Status.Used.Name(countPods, resource.DecimalSI).Value()
	}
	return 0
}

// SetUsedByOthers sets how many pods of other jobs use the ResourceQuota.
func (c *Cluster) SetUsedByOthers(pods int64) {
	quota := copyOf(ListOf[*corev1.ResourceQuota](c.Live())[0])
	quota.Status.Used = corev1.ResourceList{countPods: *resource.NewQuantity(pods, resource.DecimalSI)}
	c.Put(quota)
}

// exceedsQuota returns the error with which the API server rejects a new pod if the ResourceQuota has no room. Nil
// means that there is room or no ResourceQuota.
func (o Objects) exceedsQuota(pod *corev1.Pod) error {
	if room, ok := o.Room(); !ok || room > 0 {
		return nil
	}
	quota := o.Quota()
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, fmt.Errorf(
		"exceeded quota: %s, requested: count/pods=1, used: count/pods=%d, limited: count/pods=%d", quota.Name,
		quota.Status.Used.Name(countPods, resource.DecimalSI).Value(),
		quota.Status.Hard.Name(countPods, resource.DecimalSI).Value()))
}

// UnderQuota returns the shape of a job in a namespace whose ResourceQuota allows the given number of pods.
func UnderQuota(s Shape, pods int64) Shape {
	s.Quota = pods
	return s
}
