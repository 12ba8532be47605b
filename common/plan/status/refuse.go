package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Refuse records in a status that an object of the job could not be created. It sets the condition Initialized. If
// the job waits, it also sets the condition Running, because kubectl get shows the message of this condition. The
// result reports whether the status changes.
func Refuse(status *batchv1beta1.JobStatus, refused *report.RefusedError, generation int64, now time.Time) bool {
	condition := metav1.Condition{
		Status: metav1.ConditionFalse, Reason: refused.Reason, Message: report.Truncated(refused.Error(), report.MaxMessage),
		ObservedGeneration: generation, LastTransitionTime: *view.Stored(now),
	}
	status.Reason = refused.Reason
	condition.Type = batchv1beta1.ConditionInitialized
	changed := meta.SetStatusCondition(&status.Conditions, condition)
	if meta.IsStatusConditionFalse(status.Conditions, batchv1beta1.ConditionRunning) {
		condition.Type = batchv1beta1.ConditionRunning
		changed = meta.SetStatusCondition(&status.Conditions, condition) || changed
	}
	return changed
}
