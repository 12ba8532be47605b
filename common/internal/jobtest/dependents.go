package jobtest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// ownedByJob returns the owner references of an object that the job controls.
func ownedByJob() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
	}}
}

// Group returns a PodGroup of the job with one role and without a status.
func Group(minMember int32, options ...func(*schedulerv1beta1.PodGroup)) *schedulerv1beta1.PodGroup {
	g := &schedulerv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "ns",
			Name:            "job",
			UID:             "group-uid",
			ResourceVersion: "7",
			Generation:      1,
			OwnerReferences: ownedByJob(),
		},
		Spec: schedulerv1beta1.PodGroupSpec{
			MinMember: minMember, Queue: "lab", Priority: new(int32(10)),
			Roles: []schedulerv1beta1.PodGroupRole{{Name: "worker", MinMember: minMember}},
		},
	}
	for _, option := range options {
		option(g)
	}
	return g
}

// GroupOption changes a PodGroup.
type GroupOption = func(*schedulerv1beta1.PodGroup)

// WithCondition sets a condition of the group and the observed generation.
func WithCondition(conditionType string, status metav1.ConditionStatus, reason, message string) GroupOption {
	return func(g *schedulerv1beta1.PodGroup) {
		g.Status.ObservedGeneration = g.Generation
		meta.SetStatusCondition(
			&g.Status.Conditions,
			metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message},
		)
	}
}

// Admitted sets the condition Admitted of the group to True.
var Admitted = WithCondition("Admitted", metav1.ConditionTrue, "Admitted", "")

// Edited makes the status of the group outdated, as after a change of its spec.
func Edited(g *schedulerv1beta1.PodGroup) { g.Generation++ }

// ForeignGroup removes the owner of the group, so that it does not belong to the job.
func ForeignGroup(g *schedulerv1beta1.PodGroup) { g.OwnerReferences = nil }

// DeletingGroup sets the deletion timestamp of the group.
func DeletingGroup(g *schedulerv1beta1.PodGroup) { g.DeletionTimestamp = new(metav1.NewTime(Now)) }

// ElasticGroup makes the role of the group require only the leader, as for an elastic job.
func ElasticGroup(g *schedulerv1beta1.PodGroup) { g.Spec.Roles[0].MinMember = 1 }

// Gated marks a pod as gated. It must be applied after Unschedulable, because it changes the reason of the condition
// that Unschedulable adds.
func Gated(p *corev1.Pod) {
	p.Status.Conditions[len(p.Status.Conditions)-1].Reason = corev1.PodReasonSchedulingGated
}

// Board returns the TensorBoard of the job with the given image.
func Board(image string, options ...func(*tensorboardv1beta1.TensorBoard)) *tensorboardv1beta1.TensorBoard {
	t := &tensorboardv1beta1.TensorBoard{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "ns",
			Name:            "job",
			UID:             "board-uid",
			ResourceVersion: "7",
			OwnerReferences: ownedByJob(),
		},
		Spec: tensorboardv1beta1.TensorBoardSpec{Image: image},
	}
	for _, option := range options {
		option(t)
	}
	return t
}

// ForeignBoard removes the owner of the TensorBoard, so that it does not belong to the job.
func ForeignBoard(t *tensorboardv1beta1.TensorBoard) { t.OwnerReferences = nil }

// Suspended suspends the TensorBoard.
func Suspended(t *tensorboardv1beta1.TensorBoard) { t.Spec.Suspend = true }

// DeletingBoard sets the deletion timestamp of the TensorBoard.
func DeletingBoard(t *tensorboardv1beta1.TensorBoard) { t.DeletionTimestamp = new(metav1.NewTime(Now)) }

// FailedBoard sets the phase of the TensorBoard to Failed.
func FailedBoard(t *tensorboardv1beta1.TensorBoard) {
	t.Status.Phase = tensorboardv1beta1.TensorBoardFailed
}

// WithReady replaces the conditions of the TensorBoard. The condition Ready has the given values, and the condition
// Idle is Unknown.
func WithReady(status metav1.ConditionStatus, reason, message string) func(*tensorboardv1beta1.TensorBoard) {
	return func(t *tensorboardv1beta1.TensorBoard) {
		t.Status.Conditions = []tensorboardv1beta1.TensorBoardCondition{
			{
				Type:   tensorboardv1beta1.ConditionIdle,
				Status: metav1.ConditionUnknown,
				Reason: tensorboardv1beta1.ReasonNotRunning,
			},
			{Type: tensorboardv1beta1.ConditionReady, Status: status, Reason: reason, Message: message},
		}
	}
}

// Reported returns the DependentStatus of an existing, pending TensorBoard after the given change.
func Reported(change func(*batchv1beta1.DependentStatus)) *batchv1beta1.DependentStatus {
	status := &batchv1beta1.DependentStatus{
		Name:   "tensorboard",
		Reason: "Pending",
		Action: "Create",
		Type:   "Normal",
		Dependent: &corev1.ObjectReference{
			APIVersion: "tensorstack.dev/v1beta1",
			Kind:       "TensorBoard",
			Namespace:  "ns",
			Name:       "job",
			UID:        "board-uid",
		},
	}
	change(status)
	return status
}

// Unchanged is a change for Reported that changes nothing.
func Unchanged(*batchv1beta1.DependentStatus) {}

// Warning returns the DependentStatus of a TensorBoard that cannot be created, changed or read.
func Warning(action, reason, note string) *batchv1beta1.DependentStatus {
	return &batchv1beta1.DependentStatus{Name: "tensorboard", Reason: reason, Action: action, Note: note, Type: "Warning"}
}

// Workload returns a Workload for the two workers of a job. The Workload waits in the queue lab.
func Workload(options ...func(*kueuev1beta2.Workload)) *kueuev1beta2.Workload {
	w := &kueuev1beta2.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "job", UID: "workload-uid", Generation: 1,
			OwnerReferences: ownedByJob(),
		},
		Spec: kueuev1beta2.WorkloadSpec{
			QueueName: "lab", PodSets: []kueuev1beta2.PodSet{{Name: "worker", Count: 2}},
		},
	}
	for _, option := range options {
		option(w)
	}
	return w
}

// Having sets a condition of a Workload.
func Having(conditionType string, status metav1.ConditionStatus, reason, message string) func(*kueuev1beta2.Workload) {
	return func(w *kueuev1beta2.Workload) {
		meta.SetStatusCondition(&w.Status.Conditions,
			metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message})
	}
}

// AdmittedFor admits a Workload for the given number of workers.
func AdmittedFor(count int32) func(*kueuev1beta2.Workload) {
	return func(w *kueuev1beta2.Workload) {
		Having("QuotaReserved", metav1.ConditionTrue, "QuotaReserved", "")(w)
		Having("Admitted", metav1.ConditionTrue, "Admitted", "")(w)
		w.Status.Admission = &kueuev1beta2.Admission{
			ClusterQueue: "team", PodSetAssignments: []kueuev1beta2.PodSetAssignment{{Name: "worker", Count: &count}},
		}
	}
}

// Evicted makes a Workload evicted for the given reason.
func Evicted(reason string) func(*kueuev1beta2.Workload) {
	return Having("Evicted", metav1.ConditionTrue, reason, "another job needs the quota")
}
