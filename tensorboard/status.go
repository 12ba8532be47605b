package tensorboard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/report"
)

// writeStatus writes the status if it has changed. It emits an event for each new reason, and logs a new phase if there
// is no such event.
func (r *reconciler) writeStatus(ctx context.Context, tb *v1beta1.TensorBoard, status v1beta1.TensorBoardStatus) error {
	if equality.Semantic.DeepEqual(tb.Status, status) {
		return nil
	}
	before := tb.DeepCopy()
	tb.Status = status
	if err := loop.PatchStatus(ctx, r.client, before, tb); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	hasEvent := false
	for _, name := range []string{v1beta1.ConditionReady, v1beta1.ConditionSourcesAvailable} {
		hasEvent = r.emit(ctx, tb, condition(before.Status.Conditions, name), condition(status.Conditions, name)) || hasEvent
	}
	if !hasEvent && before.Status.Phase != status.Phase {
		log.FromContext(ctx).Info("PhaseChanged", "phase", status.Phase,
			"reason", condition(status.Conditions, v1beta1.ConditionReady).Reason, "was", before.Status.Phase)
	}
	return nil
}

// emit emits an event if the reason of a condition has changed, and reports whether it emitted one. There is no event
// for a transitional reason, or if SourcesAvailable becomes True and was not False before.
func (r *reconciler) emit(
	ctx context.Context, tb *v1beta1.TensorBoard, before, after *v1beta1.TensorBoardCondition,
) bool {
	switch {
	case before != nil && before.Reason == after.Reason, isTransitional[after.Reason]:
		return false
	case after.Type == v1beta1.ConditionSourcesAvailable && after.Status == metav1.ConditionTrue &&
		(before == nil || before.Status != metav1.ConditionFalse):
		return false
	}
	kind := corev1.EventTypeWarning
	if after.Status == metav1.ConditionTrue || after.Reason == v1beta1.ReasonSuspended ||
		after.Reason == v1beta1.ReasonCulled {
		kind = corev1.EventTypeNormal
	}
	loop.Tell(ctx, r.events, tb, report.Event{
		Type: kind, Reason: after.Reason, Action: "Reconcile", Message: after.Message,
	},
		"phase", tb.Status.Phase, "condition", after.Type, "status", after.Status)
	return true
}

// isTransitional contains the reasons of a TensorBoard that is between two states, for example while it starts.
var isTransitional = map[string]bool{
	v1beta1.ReasonQueued: true, schedulerv1beta1.ReasonScheduling: true, schedulerv1beta1.ReasonTooFewPods: true,
	batchv1beta1.ReasonCreating: true, batchv1beta1.ReasonPending: true, batchv1beta1.ReasonRestarting: true,
	v1beta1.ReasonStopping: true, v1beta1.ReasonNotRunning: true,
}
