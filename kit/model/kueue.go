package model

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
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

// Awaiting returns the job's Workload if it waits for Kueue, and nil otherwise. The Workload waits for Kueue if it is
// active, has no quota and is not finished. In a closed queue, it waits only until Kueue has reported that the queue
// is closed.
func (o Objects) Awaiting(closed bool) *kueuev1beta2.Workload {
	workload := o.Workload()
	if workload == nil || !owned(workload) || workload.DeletionTimestamp != nil ||
		!ptr.Deref(workload.Spec.Active, true) ||
		is(workload, kueuev1beta2.ConditionQuotaReserved) || is(workload, kueuev1beta2.ConditionFinished) {
		return nil
	}
	reserved := meta.FindStatusCondition(workload.Status.Conditions, kueuev1beta2.ConditionQuotaReserved)
	if closed && reserved != nil && reserved.Message == QueueClosedMessage {
		return nil
	}
	return workload
}

// ConsiderWorkload makes Kueue process the Workload of the job, if the Workload waits for Kueue. Kueue admits the
// Workload, or reports that the queue is closed. If the minCount of a pod set is below its count, Kueue admits one
// pod less than the count. ConsiderWorkload reports whether the Workload changes.
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
		count := set.Count
		if set.MinCount != nil && *set.MinCount < count {
			count--
		}
		assignment := kueuev1beta2.PodSetAssignment{Name: set.Name, Count: &count}
		if request := set.TopologyRequest; request != nil && request.Unconstrained != nil {
			assignment.TopologyAssignment = &kueuev1beta2.TopologyAssignment{}
		}
		considered.Status.Admission.PodSetAssignments = append(
			considered.Status.Admission.PodSetAssignments, assignment)
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

// Evict makes Kueue evict the Workload of the job for a more important one. It reports whether the job had a Workload
// with an admission.
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

// Deactivate makes a user deactivate the Workload of the job, and Kueue evict it. It reports whether the Workload was
// active.
func (c *Cluster) Deactivate() bool {
	workload := c.Live().Workload()
	if workload == nil || !owned(workload) || !ptr.Deref(workload.Spec.Active, true) {
		return false
	}
	deactivated := workload.DeepCopy()
	deactivated.Spec.Active = new(false)
	deactivated.Generation++
	c.setWorkload(deactivated, kueuev1beta2.ConditionEvicted, metav1.ConditionTrue, reasonDeactivated,
		"the Workload is deactivated")
	c.Put(deactivated)
	return true
}

// Activate makes a user activate the Workload of the job again, if it is deactivated.
func (c *Cluster) Activate() {
	workload := c.Live().Workload()
	if workload == nil || !owned(workload) || ptr.Deref(workload.Spec.Active, true) {
		return
	}
	activated := workload.DeepCopy()
	activated.Spec.Active = new(true)
	activated.Generation++
	c.Put(activated)
}

// reasonDeactivated is the reason why Kueue evicts a Workload that is not active.
const reasonDeactivated = "Deactivated"

// AdmittedReplicas returns how many replicas of the job are admitted now.
func (o Objects) AdmittedReplicas() int32 {
	workload, admitted := o.Workload(), int32(0)
	if workload == nil || !isAdmitted(workload) {
		return 0
	}
	for _, assignment := range workload.Status.Admission.PodSetAssignments {
		admitted += *assignment.Count
	}
	return admitted
}

// isAdmitted reports whether the pods of a Workload may run.
func isAdmitted(workload *kueuev1beta2.Workload) bool {
	return workload.Status.Admission != nil && is(workload, kueuev1beta2.ConditionAdmitted) &&
		!is(workload, kueuev1beta2.ConditionEvicted)
}

// checkAdmission checks that a pod is created only while the Workload of its job is admitted, and that the pod has
// the labels that identify this admission. The pods of the job, with the new one, must not be more than the admitted
// replicas. Those of them that can run must not be more than the remaining quota of the Workload. The check ignores
// the pod whose UID is the parameter unseen, because the controller cannot know about that pod.
func checkAdmission(t Reporter, now Objects, job framework.Job, pod *corev1.Pod, unseen types.UID) {
	t.Helper()
	workload := now.Workload()
	if workload == nil || !metav1.IsControlledBy(workload, job) || !isAdmitted(workload) {
		t.Errorf("pod %s is created, but its job has no Workload that is admitted: %+v", pod.Name, workload)
		return
	}
	if pod.Labels[kueuev1beta2.LabelPodSet] == "" {
		t.Errorf("pod %s has no label %s", pod.Name, kueuev1beta2.LabelPodSet)
	}
	if by := pod.Labels[batchv1beta1.LabelAdmittedBy]; by != string(workload.UID) {
		t.Errorf("pod %s is created for the Workload %q, but the admitted one is %q", pod.Name, by, workload.UID)
	}
	pods := int32(0)
	for _, other := range now.Pods() {
		if other.UID != unseen && !IsRelabelled(other) && isListed(*job.JobStatus(), other.Name) {
			pods++
		}
	}
	if admitted := now.AdmittedReplicas(); pods > admitted {
		t.Errorf("pod %s is created, but only %d replicas are admitted: %s", pod.Name, admitted, now.Describe())
	}
	if live, left := livePods(now, job, unseen), now.AdmittedReplicas()-reclaimable(workload); live > left {
		t.Errorf("pod %s is created as one of %d that run, but Kueue has quota for %d: %s",
			pod.Name, live, left, now.Describe())
	}
}

// livePods returns the number of pods that use quota and whose replica is listed in the status. It ignores the pod
// whose UID is the parameter unseen.
func livePods(now Objects, job framework.Job, unseen types.UID) (live int32) {
	for _, pod := range now.Pods() {
		if pod.UID != unseen && isListed(*job.JobStatus(), pod.Name) && usesQuota(pod) {
			live++
		}
	}
	return live
}

// usesQuota reports whether a pod can run and still has the labels by which the controller finds the pods of the job.
func usesQuota(pod *corev1.Pod) bool { return policy.MayRun(pod) && !IsRelabelled(pod) }

// reclaimable returns the number of replicas whose quota a Workload has given back.
func reclaimable(workload *kueuev1beta2.Workload) (count int32) {
	for _, r := range workload.Status.ReclaimablePods {
		count += r.Count
	}
	return count
}

// checkReclaiming checks that a Workload that gives back quota keeps enough quota for the pods that run.
func checkReclaiming(t Reporter, now Objects, change Change) {
	t.Helper()
	before, wasWorkload := change.Before.(*kueuev1beta2.Workload)
	after, isWorkload := change.After.(*kueuev1beta2.Workload)
	job := now.Job()
	if !wasWorkload || !isWorkload || job == nil || reclaimable(after) <= reclaimable(before) {
		return
	}
	if live, left := livePods(now, job, ""), now.AdmittedReplicas()-reclaimable(after); live > left {
		t.Errorf("%d pods run, but the Workload keeps quota for %d: %s", live, left, now.Describe())
	}
}

// ReclaimTooMuch gives back the quota of a replica, as earlier versions of the controller did for a replica that had
// ended but could run again. It reports whether the job has an admitted Workload.
func (c *Cluster) ReclaimTooMuch() bool {
	workload := c.Live().Workload()
	if workload == nil || !isAdmitted(workload) {
		return false
	}
	reclaimed := workload.DeepCopy()
	reclaimed.Status.ReclaimablePods = []kueuev1beta2.ReclaimablePod{{Name: workload.Spec.PodSets[0].Name, Count: 1}}
	c.Put(reclaimed)
	return true
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
	case is(workload, kueuev1beta2.ConditionFinished) != (status.Finished() && !slices.ContainsFunc(o.Pods(), usesQuota)):
		wrong = append(wrong, "the Workload does not have the end of the job")
	case !status.Finished() && is(workload, kueuev1beta2.ConditionEvicted) && workload.Status.Admission != nil:
		wrong = append(wrong, "the quota of the evicted Workload is not returned")
	}
	if status.Finished() {
		return wrong
	}
	for _, pod := range o.Pods() {
		isPresent := workload != nil && isAdmitted(workload) &&
			pod.Labels[batchv1beta1.LabelAdmittedBy] == string(workload.UID)
		if !isPresent && !policy.Ended(pod) && !IsRelabelled(pod) && !IsLate(pod) {
			wrong = append(wrong, "pod "+pod.Name+" runs without the present admission of the job")
		}
	}
	return wrong
}

// checkClearing checks that the quota of a Workload is returned only when no pod of the job is left. Relabelled pods
// and pods that a delayed write created are exempt.
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

// InKueue returns the shape of a job that Kueue admits.
func InKueue(s Shape) Shape {
	s.Kueue = true
	return s
}

// WithTopology returns the shape of a job that Kueue admits and whose nodes Kueue assigns.
func WithTopology(s Shape) Shape {
	s = InKueue(s)
	s.Template.Annotations = map[string]string{kueuev1beta2.AnnotationUnconstrained: "true"}
	return s
}
