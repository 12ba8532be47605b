package decide

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// ending is how a job ends.
type ending struct {
	// condition records the decision. Its type is ConditionSuccessCriteriaMet or ConditionFailureTarget.
	condition metav1.Condition
	// cause is the failure that ended the job. Nil means none.
	cause *view.ReplicaFailure
}

// ending returns how the job ends now, or nil if it continues. The success of the leader takes precedence over any
// failure. While the controller still waits for failures of the peers, no failure of a replica ends the job.
func (s *steps) ending(awaitsRootCause bool) *ending {
	if len(s.Replicas) > 0 && s.Replicas[0].Succeeded() {
		return s.endsBy(batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ReasonLeaderSucceeded,
			fmt.Sprintf("leader %s succeeded", s.Peers.Leader().Name), nil)
	}
	if policy.IsDue(s.Deadline(), s.Now) {
		return s.endsBy(batchv1beta1.ConditionFailureTarget, batchv1beta1.ReasonDeadlineExceeded,
			s.deadlineMessage(), nil)
	}
	if s.Standing.Expired {
		return s.endsBy(batchv1beta1.ConditionFailureTarget, batchv1beta1.ReasonMaxDurationExceeded,
			s.Standing.WhyExpired, nil)
	}
	if awaitsRootCause || len(s.Replicas) == 0 {
		return nil
	}
	cause := s.decisiveFailure()
	if cause == nil {
		return nil
	}
	if end := s.permanentFailure(*cause); end != nil {
		return end
	}
	return s.limitExceeded(*cause)
}

// endsBy returns how the job ends now. The parameters are the type of the condition, its reason and its message, and
// the failure that ends the job. Nil means that no failure ends it.
func (s *steps) endsBy(conditionType, reason, message string, cause *view.ReplicaFailure) *ending {
	return &ending{cause: cause, condition: metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: reason,
		Message:            report.Truncated(message, report.MaxMessage),
		ObservedGeneration: s.Job.Generation, LastTransitionTime: *view.Stored(s.Now),
	}}
}

// deadlineMessage returns why the job fails at its deadline. This message replaces the message of the condition
// Running. So if Running is not True, the result ends with the old message, which explains why the job did not run.
func (s *steps) deadlineMessage() string {
	message := fmt.Sprintf("the job was active for longer than runPolicy.activeDeadlineSeconds (%d s)",
		*s.Job.Spec.RunPolicy.ActiveDeadlineSeconds)
	running := meta.FindStatusCondition(s.Job.Status.Conditions, batchv1beta1.ConditionRunning)
	if running == nil || running.Status == metav1.ConditionTrue {
		return message
	}
	return fmt.Sprintf("%s, and did not run at the end: %s", message, running.Message)
}

// decisiveFailure returns the failure that can end the job. It is the root cause of the failures that restart all
// replicas. If there is none, it is the failure of the leader. Nil means that neither exists.
func (s *steps) decisiveFailure() *view.ReplicaFailure {
	if root := s.RootCause(); root != nil {
		return root
	}
	leader := s.Replicas[0]
	if failure := leader.Failure(); failure != nil {
		return &view.ReplicaFailure{Replica: leader, Failure: *failure}
	}
	return nil
}

// permanentFailure returns the end of the job if the restart policy of the replica does not restart it after its
// failure, and nil otherwise. A deletion or a stall never ends the job here: a deletion is not a failure of the
// program, and a stall restarts replicas with any policy.
func (s *steps) permanentFailure(cause view.ReplicaFailure) *ending {
	failure := cause.Replica.Failure()
	restartPolicy := cause.Replica.Member.Role.RestartPolicy
	if cause.IsStall() || failure == nil || policy.Restarts(restartPolicy, failure) {
		return nil
	}
	failed := view.ReplicaFailure{Replica: cause.Replica, Failure: *failure}
	message := fmt.Sprintf("%s, which restart policy %s does not restart", failed, restartPolicy)
	return s.endsBy(batchv1beta1.ConditionFailureTarget, batchv1beta1.ReasonPermanentFailure,
		withOutput(message, *failure), &failed)
}

// withOutput appends the message and the output of the failure, if there are any, to the given message.
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
	s.View = withoutAdded(s.View)
	s.EndedBy = end.cause
	if end.cause != nil {
		s.record(*end.cause)
	}
	s.End = &end.condition
}
