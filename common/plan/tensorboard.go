package plan

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// tensorBoardKind and tensorBoardDependent are the kind of a TensorBoard and its name among the dependents of a job.
const (
	tensorBoardKind      = "TensorBoard"
	tensorBoardDependent = "tensorboard"
)

// planTensorBoard decides about the TensorBoard of the job, and about nothing else. The status names the TensorBoard
// before it is created and until it is gone. Without a status the controller does not look for one.
func (s *steps) planTensorBoard() {
	before := s.job.TensorBoardStatus
	d := &s.TensorBoard
	d.Status = before
	switch {
	case s.job.Deleting: // it is garbage collected
	case s.job.TensorBoardSpec != nil:
		s.provideTensorBoard()
	case before != nil:
		s.removeTensorBoard()
	}
	s.Events = append(s.Events, TensorBoardEvents(before, d.Status)...)
}

// provideTensorBoard creates or changes the TensorBoard as the job wants it. It only reports the TensorBoard of a
// finished job.
func (s *steps) provideTensorBoard() {
	view, d, before := s.seen.TensorBoard, &s.TensorBoard, s.job.TensorBoardStatus
	finished := s.job.Status.Finished()
	switch {
	case finished && before == nil: // the job has never had one
	case view.Unknown:
		if before == nil {
			d.Status = CreatingTensorBoard()
		}
		s.wakeAt(s.now.Add(CacheDelay))
	case view.Problem != nil:
		d.Status = withoutObject(before, view.Problem)
		if !finished {
			s.wakeAt(s.now.Add(s.job.DependentRetry))
		}
	case s.isOwnTensorBoard(view.Object):
		s.followTensorBoard(finished)
	case finished:
		if before.Dependent != nil {
			d.Status = named(batchv1beta1.DependentStatus{
				Action: before.Action, Reason: batchv1beta1.ReasonDeleted,
				Note: "it was deleted after the job had finished", Type: corev1.EventTypeNormal,
			})
		}
	case view.Object != nil:
		d.Status = withoutObject(before, report.NameConflict(TheJob, "tensorboard "+s.job.Name))
		s.wakeAt(s.now.Add(s.job.DependentRetry))
	default:
		if before == nil || before.Dependent != nil {
			d.Status = CreatingTensorBoard() // otherwise the status keeps the problem until the TensorBoard exists
		}
		s.changeTensorBoard(batchv1beta1.ActionCreate)
	}
}

// followTensorBoard reports the job's own TensorBoard, and changes it if the job wants another.
func (s *steps) followTensorBoard(finished bool) {
	object, d, before := s.seen.TensorBoard.Object, &s.TensorBoard, s.job.TensorBoardStatus
	status := TensorBoardStatusOf(object, before)
	d.Status = status
	switch {
	case object.DeletionTimestamp != nil:
		status.Ready, status.Reason, status.Note = false, batchv1beta1.ReasonDeleted, "it is being deleted"
	case finished:
	case !equality.Semantic.DeepEqual(WantedTensorBoard(s.job.TensorBoardSpec, object), object.Spec):
		if before != nil && before.Reason == batchv1beta1.ReasonUpdateFailed {
			status.Reason, status.Note, status.Type = before.Reason, before.Note, before.Type
		}
		s.changeTensorBoard(batchv1beta1.ActionUpdate)
	}
}

// removeTensorBoard deletes the TensorBoard that the job no longer wants, and then forgets it.
func (s *steps) removeTensorBoard() {
	view, d := s.seen.TensorBoard, &s.TensorBoard
	switch {
	case view.Unknown:
		s.wakeAt(s.now.Add(CacheDelay))
	case view.Problem != nil:
		d.Status = withoutObject(d.Status, view.Problem)
		s.wakeAt(s.now.Add(s.job.DependentRetry))
	case !s.isOwnTensorBoard(view.Object):
		d.Status = nil
	case view.Object.DeletionTimestamp != nil:
		s.wakeAt(s.now.Add(s.job.DependentRetry))
	default:
		s.changeTensorBoard(batchv1beta1.ActionDelete)
	}
}

// changeTensorBoard decides on a change, once it may be tried.
func (s *steps) changeTensorBoard(change string) {
	d := &s.TensorBoard
	if held := s.seen.TensorBoard.Held; held.Change == change && s.now.Before(held.Until) {
		s.wakeAt(held.Until)
		return
	}
	d.Change, d.Object = change, s.seen.TensorBoard.Object
	status := *d.Status
	status.Action = change
	d.Status = &status
}

// WantedTensorBoard returns the spec that a TensorBoard is to have. Its users and its own controller decide whether it
// is suspended.
func WantedTensorBoard(
	spec *tensorboardv1beta1.TensorBoardSpec, object *tensorboardv1beta1.TensorBoard,
) tensorboardv1beta1.TensorBoardSpec {
	want := *spec.DeepCopy()
	want.Suspend = object.Spec.Suspend
	return want
}

// named returns a status with the name of the dependent.
func named(status batchv1beta1.DependentStatus) *batchv1beta1.DependentStatus {
	status.Name = tensorBoardDependent
	return &status
}

// CreatingTensorBoard returns the status of a TensorBoard that is about to be created.
func CreatingTensorBoard() *batchv1beta1.DependentStatus {
	return named(batchv1beta1.DependentStatus{
		Reason: batchv1beta1.ReasonCreating, Action: batchv1beta1.ActionCreate, Type: corev1.EventTypeNormal,
	})
}

// withoutObject returns the status of a TensorBoard that cannot be had.
func withoutObject(before *batchv1beta1.DependentStatus, problem *report.RefusedError) *batchv1beta1.DependentStatus {
	status := batchv1beta1.DependentStatus{
		Reason: problem.Reason, Note: report.Truncated(problem.Error(), report.MaxNote), Type: corev1.EventTypeWarning,
	}
	if before != nil {
		status.Action = before.Action
	}
	return named(status)
}

// TensorBoardStatusOf returns the status of a TensorBoard, which follows its condition Ready.
func TensorBoardStatusOf(
	object *tensorboardv1beta1.TensorBoard, before *batchv1beta1.DependentStatus,
) *batchv1beta1.DependentStatus {
	ready := TensorBoardReady(object)
	status := named(batchv1beta1.DependentStatus{
		Dependent: &corev1.ObjectReference{
			APIVersion: tensorboardv1beta1.GroupVersion.String(), Kind: tensorBoardKind,
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

// TensorBoardReady returns the condition Ready of a TensorBoard, or an empty one.
func TensorBoardReady(object *tensorboardv1beta1.TensorBoard) tensorboardv1beta1.TensorBoardCondition {
	for _, c := range object.Status.Conditions {
		if c.Type == tensorboardv1beta1.ConditionReady {
			return c
		}
	}
	return tensorboardv1beta1.TensorBoardCondition{}
}

// TensorBoardEvents returns the event of a warning, once, when the warning is new.
func TensorBoardEvents(before, after *batchv1beta1.DependentStatus) []report.Event {
	isNew := before == nil || after == nil || before.Type != after.Type || before.Reason != after.Reason
	if after == nil || after.Type != corev1.EventTypeWarning || !isNew {
		return nil
	}
	return []report.Event{{
		Type: after.Type, Reason: after.Reason, Action: cmp.Or(after.Action, batchv1beta1.ActionCreate),
		Message: "TensorBoard: " + after.Note,
	}}
}

// isOwnTensorBoard reports whether a TensorBoard is the job's.
func (v *view) isOwnTensorBoard(object *tensorboardv1beta1.TensorBoard) bool {
	return object != nil && v.controls(object)
}
