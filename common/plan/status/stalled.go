package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
)

// setStalled sets the condition Stalled, which reports whether the training makes progress.
func (r *renderer) setStalled() {
	const isOnTime = "the training is within its deadlines again"
	stall := r.facts.Stall
	set := func(status metav1.ConditionStatus, reason, message string) {
		r.setCondition(batchv1beta1.ConditionStalled, status, reason, message)
	}
	switch stall.Change {
	case decide.StallRestarts:
		set(metav1.ConditionTrue, batchv1beta1.ReasonNoProgress, stall.Message)
	case decide.StallBegins:
		set(metav1.ConditionTrue, batchv1beta1.ReasonNoProgress, stall.Message)
		r.addEvent(corev1.EventTypeWarning, batchv1beta1.EventStalled, "Observe",
			fmt.Sprintf("replica %s: %s", stall.Replica, stall.Message), "replica", stall.Replica)
	case decide.StallEnds:
		set(metav1.ConditionFalse, batchv1beta1.ReasonProgressing, isOnTime)
		r.addEvent(corev1.EventTypeNormal, batchv1beta1.EventProgressing, "Observe", isOnTime)
	case decide.StallStops:
		set(metav1.ConditionFalse, batchv1beta1.ReasonNotRunning, "the training does not run anymore")
	case decide.StallUnknown:
		set(metav1.ConditionUnknown, batchv1beta1.ReasonProgressUnknown, stall.Message)
		r.addEvent(corev1.EventTypeWarning, batchv1beta1.ReasonProgressUnknown, "Observe", stall.Message)
	case decide.StallKnown:
		set(metav1.ConditionFalse, batchv1beta1.ReasonProgressing,
			"the progress can be read again, or there is no deadline anymore")
	}
}
