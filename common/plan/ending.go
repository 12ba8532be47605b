package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// ending is how a job ends.
type ending struct {
	// condition records the decision: ConditionSuccessCriteriaMet or ConditionFailureTarget.
	condition string
	reason    string
	message   string
	// cause is the failure that ended the job. Nil means none.
	cause *replicaFailure
}

// ending returns how the job ends now, or nil if it continues. The success of the leader takes precedence over any
// failure. While the controller waits for reports of a failure, no failure ends the job.
func (v *view) ending(awaitsReports bool) *ending {
	if len(v.replicas) > 0 && v.replicas[0].succeeded() {
		return &ending{
			condition: batchv1beta1.ConditionSuccessCriteriaMet,
			reason:    batchv1beta1.ReasonLeaderSucceeded,
			message:   fmt.Sprintf("leader %s succeeded", v.gang.Leader().Name),
		}
	}
	if deadline, ok := v.deadline(); ok && !v.now.Before(deadline) {
		return &ending{
			condition: batchv1beta1.ConditionFailureTarget,
			reason:    batchv1beta1.ReasonDeadlineExceeded,
			message:   v.deadlineMessage(),
		}
	}
	if v.seen.Admission != nil {
		if message, expired := v.seen.Admission.Expired(v.job.UID); expired {
			return &ending{
				condition: batchv1beta1.ConditionFailureTarget,
				reason:    batchv1beta1.ReasonMaxDurationExceeded,
				message:   message,
			}
		}
	}
	if awaitsReports || len(v.replicas) == 0 {
		return nil
	}
	cause := v.decisiveFailure()
	if cause == nil {
		return nil
	}
	if end := v.permanentFailure(*cause); end != nil {
		return end
	}
	return v.limitExceeded(*cause)
}

// deadlineMessage returns why the job fails at its deadline. The end replaces the message of Running, so a job that
// waits then keeps what it waited for.
func (v *view) deadlineMessage() string {
	message := fmt.Sprintf("the job was active for longer than runPolicy.activeDeadlineSeconds (%d s)",
		*v.job.Spec.RunPolicy.ActiveDeadlineSeconds)
	running := meta.FindStatusCondition(v.job.Status.Conditions, batchv1beta1.ConditionRunning)
	if running == nil || running.Status == metav1.ConditionTrue {
		return message
	}
	return fmt.Sprintf("%s, and did not run at the end: %s", message, running.Message)
}

// decisiveFailure returns the failure that can end the job. It is the root cause of a failure that restarts all
// replicas. If there is none, it is the failure of the leader. Nil means that neither exists.
func (v *view) decisiveFailure() *replicaFailure {
	if root := v.rootCause(); root != nil {
		return root
	}
	leader := v.replicas[0]
	if failure := leader.failure(); failure != nil {
		return &replicaFailure{replica: leader, failure: *failure}
	}
	return nil
}

// permanentFailure returns the end of the job if the restart policy of the replica does not restart it after its
// failure, and nil otherwise. A deletion is not a failure of the program, and a stall restarts replicas with any
// policy.
func (v *view) permanentFailure(cause replicaFailure) *ending {
	failure := cause.replica.failure()
	restartPolicy := cause.replica.member.Role.RestartPolicy
	if cause.isStall() || failure == nil || policy.Restarts(restartPolicy, failure) {
		return nil
	}
	failed := replicaFailure{replica: cause.replica, failure: *failure}
	return &ending{
		condition: batchv1beta1.ConditionFailureTarget,
		reason:    batchv1beta1.ReasonPermanentFailure,
		message:   withOutput(fmt.Sprintf("%s, which restart policy %s does not restart", failed, restartPolicy), *failure),
		cause:     &failed,
	}
}

// limitExceeded returns the end of the job if the failure needs a counted restart and none is left, and nil otherwise.
func (v *view) limitExceeded(cause replicaFailure) *ending {
	if cause.failure.Ignored || policy.BackoffLeft(v.job.Spec.RunPolicy, v.job.Status.BackoffCount) {
		return nil
	}
	limit := ptr.Deref(v.job.Spec.RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
	return &ending{
		condition: batchv1beta1.ConditionFailureTarget,
		reason:    batchv1beta1.ReasonBackoffLimitExceeded,
		message: withOutput(fmt.Sprintf("%s and runPolicy.backoffLimit (%d) allows no further restart", cause, limit),
			cause.failure),
		cause: &cause,
	}
}

// withOutput appends the message of the kubelet and the last complete lines of the replica's output.
func withOutput(message string, failure policy.Failure) string {
	if failure.Message != "" {
		message += ": " + failure.Message
	}
	if failure.Output == "" {
		return message
	}
	return message + "; its last output:\n" + failure.Output
}

// decideEnd records how the job ends. From then on no object is created for the job.
func (s *steps) decideEnd(end ending) {
	s.view = s.withoutAdded()
	s.endedBy = end.cause
	if end.cause != nil {
		s.record(*end.cause)
	}
	s.Status.Reason = end.reason
	s.setCondition(end.condition, metav1.ConditionTrue, end.reason, end.message)
	s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinishing, end.message)
	hasFailed := meta.IsStatusConditionTrue(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	switch {
	case end.cause != nil:
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue,
			end.cause.failure.Reason, end.cause.String())
	case hasFailed && !slices.ContainsFunc(s.replicas, (*replica).staysFailed):
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, end.reason, end.message)
	}
	s.setTasks()
}
