package model

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
)

// Workload returns the Workload with the name of the job, or nil if there is none.
func (o Objects) Workload() *kueuev1beta2.Workload {
	if workloads := ListOf[*kueuev1beta2.Workload](o); len(workloads) > 0 {
		return workloads[0]
	}
	return nil
}

// describeWorkload returns the number of pods of a Workload and its conditions that are True. It leaves out PodsReady:
// a controller that was stopped might not have seen that the pods were ready.
func describeWorkload(w *kueuev1beta2.Workload) string {
	var pods int32
	for _, set := range w.Spec.PodSets {
		pods += set.Count
	}
	var conditions []string
	for _, c := range w.Status.Conditions {
		if c.Status == metav1.ConditionTrue && c.Type != kueuev1beta2.ConditionPodsReady {
			text := c.Type
			if c.Reason != c.Type {
				text += " (" + c.Reason + ")"
			}
			conditions = append(conditions, text)
		}
	}
	slices.Sort(conditions)
	return fmt.Sprintf("for %d: %s", pods, strings.Join(conditions, ", "))
}

// is reports whether a condition of a Workload is True.
func is(workload *kueuev1beta2.Workload, conditionType string) bool {
	return meta.IsStatusConditionTrue(workload.Status.Conditions, conditionType)
}

// Awaiting returns the job's Workload if Kueue changes it: it has no quota, and the queue is not closed or Kueue has
// not reported yet that the queue is closed. Otherwise, it returns nil.
func (o Objects) Awaiting(closed bool) *kueuev1beta2.Workload {
	workload := o.Workload()
	if workload == nil || !owned(workload) || workload.DeletionTimestamp != nil ||
		is(workload, kueuev1beta2.ConditionQuotaReserved) || is(workload, kueuev1beta2.ConditionFinished) {
		return nil
	}
	reserved := meta.FindStatusCondition(workload.Status.Conditions, kueuev1beta2.ConditionQuotaReserved)
	if closed && reserved != nil && reserved.Message == QueueClosedMessage {
		return nil
	}
	return workload
}

// ConsiderWorkload makes Kueue admit the Workload of the job, if it waits and the queue is not closed. It reports
// whether that changes the Workload.
func (c *Cluster) ConsiderWorkload(closed bool) bool {
	workload := c.Live().Awaiting(closed)
	if workload == nil {
		return false
	}
	considered := workload.DeepCopy()
	if closed {
		c.setWorkload(considered, kueuev1beta2.ConditionQuotaReserved, metav1.ConditionFalse, kueuev1beta2.ReasonPending,
			QueueClosedMessage)
		c.Put(considered)
		return true
	}
	considered.Status.Admission = &kueuev1beta2.Admission{ClusterQueue: "team"}
	for _, set := range workload.Spec.PodSets {
		considered.Status.Admission.PodSetAssignments = append(considered.Status.Admission.PodSetAssignments,
			kueuev1beta2.PodSetAssignment{Name: set.Name, Count: &set.Count})
	}
	c.setWorkload(considered, kueuev1beta2.ConditionQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "")
	c.setWorkload(considered, kueuev1beta2.ConditionAdmitted, metav1.ConditionTrue, "Admitted", "")
	if is(workload, kueuev1beta2.ConditionEvicted) {
		c.setWorkload(considered, kueuev1beta2.ConditionEvicted, metav1.ConditionFalse, "QuotaReserved", "")
	}
	c.Put(considered)
	return true
}

// setWorkload sets a condition of a Workload.
func (c *Cluster) setWorkload(
	w *kueuev1beta2.Workload, conditionType string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: c.now(),
	})
}

// Evict makes Kueue evict the Workload of the job for a more important one. It reports whether the Workload is
// admitted.
func (c *Cluster) Evict() bool {
	workload := c.Live().Workload()
	if workload == nil || !owned(workload) || workload.Status.Admission == nil {
		return false
	}
	evicted := workload.DeepCopy()
	c.setWorkload(evicted, kueuev1beta2.ConditionEvicted, metav1.ConditionTrue, kueuev1beta2.ReasonPreempted,
		"a more important job needs the quota")
	c.Put(evicted)
	return true
}

// checkAdmission checks that a pod is created only while the Workload of its job is admitted, and that the pod has the
// label by which Kueue finds it.
func checkAdmission(t Reporter, now Objects, job framework.Job, pod *corev1.Pod) {
	t.Helper()
	workload := now.Workload()
	if workload == nil || !metav1.IsControlledBy(workload, job) || workload.Status.Admission == nil ||
		!is(workload, kueuev1beta2.ConditionAdmitted) {
		t.Errorf("pod %s is created, but its job has no Workload that is admitted: %+v", pod.Name, workload)
		return
	}
	if pod.Labels[kueuev1beta2.LabelPodSet] == "" {
		t.Errorf("pod %s has no label %s", pod.Name, kueuev1beta2.LabelPodSet)
	}
}

// CheckWorkload checks the Workload of a job at rest.
func CheckWorkload(o Objects, job framework.Job, pausing bool) (wrong []string) {
	workload, status := o.Workload(), job.JobStatus()
	if job.GetLabels()[kueuev1beta2.LabelQueueName] == "" || workload != nil && !owned(workload) {
		return nil
	}
	switch {
	case pausing && !status.Finished():
		if workload != nil {
			wrong = append(wrong, "the job is paused, but its Workload exists")
		}
	case workload == nil:
		if !status.Finished() {
			wrong = append(wrong, "the job has no Workload")
		}
	case is(workload, kueuev1beta2.ConditionFinished) != status.Finished():
		wrong = append(wrong, "the Workload does not have the end of the job")
	case !status.Finished() && is(workload, kueuev1beta2.ConditionEvicted) && workload.Status.Admission != nil:
		wrong = append(wrong, "the quota of the evicted Workload is not returned")
	}
	return wrong
}

// checkClearing checks that the quota of a Workload is returned only when no pod of the job is left.
func checkClearing(t Reporter, now Objects, change Change) {
	t.Helper()
	before, wasWorkload := change.Before.(*kueuev1beta2.Workload)
	after, isWorkload := change.After.(*kueuev1beta2.Workload)
	isSeen := func(pod *corev1.Pod) bool { return !IsRelabelled(pod) && !IsLate(pod) }
	if wasWorkload && before.Status.Admission != nil && (!isWorkload || after.Status.Admission == nil) &&
		now.Job() != nil && slices.ContainsFunc(now.Pods(), isSeen) {
		t.Errorf("the quota of the Workload is returned while pods are left: %s", now.Describe())
	}
}
