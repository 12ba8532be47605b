package conformance

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// podGroup returns the PodGroup of the job's name, nil if there is none.
func (o objects) podGroup() *schedulerv1beta1.PodGroup {
	if groups := list[*schedulerv1beta1.PodGroup](o); len(groups) > 0 {
		return groups[0]
	}
	return nil
}

// unconsidered returns the job's PodGroup if the scheduler-controller has yet to say whether it is admitted as it is now, else nil.
func (o objects) unconsidered() *schedulerv1beta1.PodGroup {
	group := o.podGroup()
	if group == nil || !owned(group) || group.Status.ObservedGeneration == group.Generation {
		return nil
	}
	return group
}

// Admit lets the scheduler-controller admit the PodGroup of a job, and says whether it has not done so before.
func (c *Cluster) Admit() bool {
	group := c.live().unconsidered()
	if group != nil {
		c.consider(group, false)
	}
	return group != nil
}

// consider lets the scheduler-controller say whether a queue admits a PodGroup.
func (c *Cluster) consider(group *schedulerv1beta1.PodGroup, closed bool) {
	considered := group.DeepCopy()
	considered.Status.ObservedGeneration = group.Generation
	considered.Status.PriorityClassName = PriorityClassName
	admitted := metav1.Condition{
		Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: schedulerv1beta1.ReasonAdmitted, LastTransitionTime: c.now(),
	}
	if closed {
		admitted.Status, admitted.Reason, admitted.Message = metav1.ConditionFalse, schedulerv1beta1.ReasonQueueClosed, queueClosedMessage
	}
	meta.SetStatusCondition(&considered.Status.Conditions, admitted)
	c.put(c.keyOf(group), considered)
}

// tensorBoardStatus returns what the status of a job says of its TensorBoard, nil for nothing.
func tensorBoardStatus(job framework.Job) *batchv1beta1.DependentStatus {
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
