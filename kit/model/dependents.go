package model

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// PriorityClassName is the name of the priority class that the scheduler-controller of the model reports for the pods
// of each PodGroup.
const PriorityClassName = "priority-of-the-group"

// QueueClosedMessage is the message for a closed queue. It is in the condition Admitted of a PodGroup and in the
// condition QuotaReserved of a Workload.
const QueueClosedMessage = "the queue is closed"

// Unconsidered returns the job's PodGroup if the scheduler-controller has not processed its current generation, and nil
// otherwise.
func (o Objects) Unconsidered() *schedulerv1beta1.PodGroup {
	group := o.PodGroup()
	if group == nil || !owned(group) || group.Status.ObservedGeneration == group.Generation {
		return nil
	}
	return group
}

// ConsiderNew makes the scheduler-controller process the PodGroup of the job if the PodGroup is new or has changed.
// Otherwise, it makes Kueue process the Workload of the job. ConsiderNew reports whether one of the two objects was
// processed.
func (c *Cluster) ConsiderNew(closed bool) bool {
	if c.Live().Unconsidered() == nil {
		return c.ConsiderWorkload(closed)
	}
	c.Consider(closed)
	return true
}

// Consider makes the scheduler-controller process the PodGroup of the job, if the job has one. The scheduler-controller
// admits the PodGroup unless the queue is closed.
func (c *Cluster) Consider(closed bool) {
	group := c.Live().PodGroup()
	if group == nil || !owned(group) {
		return
	}
	considered := group.DeepCopy()
	considered.Status.ObservedGeneration = group.Generation
	considered.Status.PriorityClassName = PriorityClassName
	admitted := metav1.Condition{
		Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: schedulerv1beta1.ReasonAdmitted,
		LastTransitionTime: c.now(),
	}
	if closed {
		admitted.Status, admitted.Reason = metav1.ConditionFalse, schedulerv1beta1.ReasonQueueClosed
		admitted.Message = QueueClosedMessage
	}
	meta.SetStatusCondition(&considered.Status.Conditions, admitted)
	c.Put(considered)
}

// ExpireGroup makes the scheduler-controller report that the PodGroup of the job has exceeded the maximum duration of
// its queue. ExpireGroup reports whether the job has a PodGroup.
func (c *Cluster) ExpireGroup() bool {
	group := c.Live().PodGroup()
	if group == nil || !owned(group) {
		return false
	}
	expired := group.DeepCopy()
	meta.SetStatusCondition(&expired.Status.Conditions, metav1.Condition{
		Type: schedulerv1beta1.ConditionMaxDurationExceeded, Status: metav1.ConditionTrue,
		Reason: schedulerv1beta1.ReasonMaxDurationExceeded, LastTransitionTime: c.now(),
	})
	c.Put(expired)
	return true
}

// TensorBoardStatus returns the status of the TensorBoard of a job, or nil if the job has none.
func TensorBoardStatus(job framework.Job) *batchv1beta1.DependentStatus {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		return owner.TensorBoardStatus()
	}
	return nil
}

func setTensorBoardStatus(job framework.Job, status *batchv1beta1.DependentStatus) {
	if owner, ok := job.(framework.TensorBoardJob); ok {
		owner.SetTensorBoardStatus(status)
	}
}

// TwoWithTensorBoard returns the shape of a collective of two replicas with a TensorBoard of image tb:1.
func TwoWithTensorBoard() Shape {
	s := Two(OnFailure, ScopeJob)
	s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: "tb:1"}
	return s
}

// InQueue returns the shape with a queue, so that the job is scheduled as a gang.
func InQueue(s Shape) Shape {
	s.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
	return s
}
