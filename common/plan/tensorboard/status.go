package tensorboard

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// The kind of a TensorBoard, and its name in the dependent status of a job.
const (
	tensorBoardKindName  = "TensorBoard"
	tensorBoardDependent = "tensorboard"
)

// named returns a copy of a dependent status with the name tensorboard.
func named(status batchv1beta1.DependentStatus) *batchv1beta1.DependentStatus {
	status.Name = tensorBoardDependent
	return &status
}

// Creating returns the status of a TensorBoard that is about to be created.
func Creating() *batchv1beta1.DependentStatus {
	return named(batchv1beta1.DependentStatus{
		Reason: batchv1beta1.ReasonCreating, Action: batchv1beta1.ActionCreate, Type: corev1.EventTypeNormal,
	})
}

// without returns the status of a TensorBoard that cannot be created or read because of the problem. The parameter
// before is the status that the result takes the field Action from.
func without(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := batchv1beta1.DependentStatus{}
	if before != nil {
		status.Action = before.Action
	}
	return Refused(named(status), problem)
}

// Refused returns a copy of a dependent status, with the problem as its warning.
func Refused(
	before *batchv1beta1.DependentStatus, problem *report.RefusedError,
) *batchv1beta1.DependentStatus {
	status := *before
	status.Reason, status.Type = problem.Reason, corev1.EventTypeWarning
	status.Note = report.Truncated(problem.Error(), report.MaxNote)
	return &status
}

// StatusOf returns the dependent status of a TensorBoard, according to its condition Ready. If the parameter before
// is about the same TensorBoard, the result has the same action.
func StatusOf(
	object *tensorboardv1beta1.TensorBoard, before *batchv1beta1.DependentStatus,
) *batchv1beta1.DependentStatus {
	ready := Ready(object)
	status := named(batchv1beta1.DependentStatus{
		Dependent: &corev1.ObjectReference{
			APIVersion: tensorboardv1beta1.GroupVersion.String(), Kind: tensorBoardKindName,
			Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		Ready:  ready.Status == metav1.ConditionTrue,
		Reason: cmp.Or(ready.Reason, batchv1beta1.ReasonPending),
		Action: batchv1beta1.ActionCreate,
		Note:   report.Truncated(ready.Message, report.MaxNote),
		Type:   corev1.EventTypeNormal,
	})
	if object.Status.Phase == tensorboardv1beta1.TensorBoardFailed {
		status.Type = corev1.EventTypeWarning
	}
	if before != nil && before.Dependent != nil && before.Dependent.UID == object.UID {
		status.Action = cmp.Or(before.Action, status.Action)
	}
	return status
}

// Ready returns the condition Ready of a TensorBoard, or an empty condition if it is not set.
func Ready(object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardCondition {
	for _, c := range object.Status.Conditions {
		if c.Type == tensorboardv1beta1.ConditionReady {
			return c
		}
	}
	return tensorboardv1beta1.TensorBoardCondition{}
}

// Events returns an event if the status after has a warning that the status before does not have, and nil otherwise.
func Events(before, after *batchv1beta1.DependentStatus) []report.Event {
	isNew := before == nil || after == nil || before.Type != after.Type || before.Reason != after.Reason
	if after == nil || after.Type != corev1.EventTypeWarning || !isNew {
		return nil
	}
	return []report.Event{{
		Type: after.Type, Reason: after.Reason, Action: cmp.Or(after.Action, batchv1beta1.ActionCreate),
		Message: "TensorBoard: " + after.Note,
	}}
}
