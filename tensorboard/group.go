package tensorboard

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// groupRole is the role of the pod in its PodGroup.
const groupRole = "tensorboard"

// groupView is the observed PodGroup of a TensorBoard that is scheduled from a queue.
type groupView struct {
	// Object is the PodGroup with the name of the pod, or nil if there is none. It can have another owner.
	Object *schedulerv1beta1.PodGroup
	// NotInstalled is true if the CRD of PodGroups is not installed.
	NotInstalled bool
}

// t9kScheduler returns the settings for scheduling from a queue. It returns nil if no queue is set.
func t9kScheduler(spec *v1beta1.TensorBoardSpec) *batchv1beta1.T9kScheduler {
	if spec.Scheduler == nil {
		return nil
	}
	return spec.Scheduler.T9kScheduler
}

// buildGroup returns the PodGroup of a TensorBoard, which is a gang of one pod.
func buildGroup(tb *v1beta1.TensorBoard) *schedulerv1beta1.PodGroup {
	scheduler := t9kScheduler(&tb.Spec)
	return &schedulerv1beta1.PodGroup{
		ObjectMeta: objectMeta(tb),
		Spec:       schedulerv1beta1.PodGroupSpec{MinMember: 1, Queue: scheduler.Queue, Priority: scheduler.Priority},
	}
}

// joinQueue makes the decision about the PodGroup of a TensorBoard that has no pod yet. It returns the phase and the
// condition Ready if the pod cannot be created yet. Otherwise, both are empty.
func (d *decision) joinQueue(
	tb *v1beta1.TensorBoard, group groupView,
) (v1beta1.TensorBoardPhase, v1beta1.TensorBoardCondition) {
	name := objectName(tb.Name)
	switch {
	case group.NotInstalled:
		return v1beta1.TensorBoardFailed, notReady(
			batchv1beta1.ReasonNotInstalled,
			"spec.scheduler.t9kScheduler requires PodGroups, but the CustomResourceDefinition "+
				"podgroups.scheduler.tensorstack.dev is not installed",
		)
	case group.Object == nil:
		d.CreateGroup = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonQueued, fmt.Sprintf("podgroup %s is being created", name))
	case !metav1.IsControlledBy(group.Object, tb):
		conflict := report.NameConflict(theTensorBoard, "podgroup "+name, group.Object)
		return v1beta1.TensorBoardFailed, notReady(conflict.Reason, conflict.Error())
	}
	admitted := meta.FindStatusCondition(group.Object.Status.Conditions, schedulerv1beta1.ConditionAdmitted)
	switch {
	case group.Object.DeletionTimestamp != nil || admitted == nil:
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonQueued,
			fmt.Sprintf("podgroup %s waits for the scheduler-controller", name))
	case admitted.Status != metav1.ConditionTrue:
		return v1beta1.TensorBoardPending, notReady(admitted.Reason, admitted.Message)
	}
	return "", v1beta1.TensorBoardCondition{}
}

// whyQueued returns why the PodGroup of a pod without a node is not scheduled. Both results are empty if the PodGroup
// is scheduled, does not exist, or has no condition GroupScheduled.
func whyQueued(group groupView) (reason, message string) {
	if group.Object == nil {
		return "", ""
	}
	scheduled := meta.FindStatusCondition(group.Object.Status.Conditions, schedulerv1beta1.ConditionGroupScheduled)
	if scheduled == nil || scheduled.Status == metav1.ConditionTrue {
		return "", ""
	}
	return scheduled.Reason, scheduled.Message
}
