package policy

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// ChangesWait reports whether two statuses have different messages about a wait for admission, and the job with the
// second one waits.
func ChangesWait(before, after batchv1beta1.JobStatus) bool {
	running := func(status batchv1beta1.JobStatus) metav1.Condition {
		return ptr.Deref(meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning), metav1.Condition{})
	}
	return running(after).Reason == batchv1beta1.ReasonQueued && running(before).Message != running(after).Message
}
