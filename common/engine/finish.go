package engine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// maxTail is how much of a replica's output a condition quotes, in bytes: as much as the kubelet keeps of a container. A launcher that
// ends the other processes speaks of each, after the line that says what was wrong.
const maxTail = 4096

// ending is how a job ends.
type ending struct {
	condition string
	reason    string
	message   string
	// cause is the failure that ended the job, if one did.
	cause *rootCause
}

// ending returns how the job ends now, or nil if it goes on. The leader's success goes before any failure.
func (p *planner) ending() *ending {
	if len(p.replicas) > 0 && p.replicas[0].succeeded() {
		return &ending{
			condition: batchv1beta1.ConditionCompleted,
			reason:    batchv1beta1.ReasonLeaderSucceeded,
			message:   fmt.Sprintf("leader %s succeeded", p.gang.Leader().Name),
		}
	}
	if deadline, ok := p.deadline(); ok && !p.now.Before(deadline) {
		return &ending{
			condition: batchv1beta1.ConditionFailed,
			reason:    batchv1beta1.ReasonDeadlineExceeded,
			message: fmt.Sprintf("the job was active for longer than runPolicy.activeDeadlineSeconds (%d s)",
				*p.job.Spec.RunPolicy.ActiveDeadlineSeconds),
		}
	}
	if _, waits := p.reportsDue(); waits || len(p.replicas) == 0 {
		return nil
	}
	cause := p.decisiveFailure()
	if cause == nil {
		return nil
	}
	if end := p.permanentFailure(cause.replica); end != nil {
		return end
	}
	return p.limitExceeded(*cause)
}

// decisiveFailure returns the failure that may end the job: the one that takes all replicas, else the leader's. It is nil if
// there is none.
func (p *planner) decisiveFailure() *rootCause {
	if root := p.rootFailure(); root != nil {
		return root
	}
	leader := p.replicas[0]
	if failure := leader.failure(); failure != nil {
		return &rootCause{replica: leader, failure: *failure}
	}
	return nil
}

// permanentFailure ends the job if the replica failed in a way that its policy does not restart.
func (p *planner) permanentFailure(r *replica) *ending {
	failure := r.failure()
	restartPolicy := r.member.Role.RestartPolicy
	if failure == nil || policy.Restarts(restartPolicy, failure) {
		return nil
	}
	cause := &rootCause{replica: r, failure: *failure}
	return &ending{
		condition: batchv1beta1.ConditionFailed,
		reason:    batchv1beta1.ReasonPermanentFailure,
		message:   withTail(fmt.Sprintf("%s, which restart policy %s does not restart", cause, restartPolicy), *failure),
		cause:     cause,
	}
}

// limitExceeded ends the job if the failure needs a counted restart and none is left.
func (p *planner) limitExceeded(cause rootCause) *ending {
	if cause.failure.Free || policy.BackoffLeft(p.job.Spec.RunPolicy, p.decision.Status.BackoffCount) {
		return nil
	}
	limit := ptr.Deref(p.job.Spec.RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
	return &ending{
		condition: batchv1beta1.ConditionFailed,
		reason:    batchv1beta1.ReasonBackoffLimitExceeded,
		message: withTail(fmt.Sprintf("%s and runPolicy.backoffLimit (%d) allows no further restart", cause, limit),
			cause.failure),
		cause: &cause,
	}
}

func (p *planner) isLeader(pod string) bool {
	return len(p.gang.Members) > 0 && p.gang.Leader().Name == pod
}

// withTail appends what the kubelet says and the last whole lines of what the replica printed.
func withTail(message string, failure policy.Failure) string {
	if failure.Message != "" {
		message += ": " + failure.Message
	}
	output := failure.Output
	if output == "" {
		return message
	}
	if len(output) > maxTail {
		output = strings.ToValidUTF8(output[len(output)-maxTail:], "")
		if _, rest, found := strings.Cut(output, "\n"); found {
			output = rest
		}
	}
	return message + "; its last output:\n" + output
}

// finish makes the job's end final.
func (p *planner) finish(end ending) {
	status := &p.decision.Status
	status.CompletionTime = p.timestamp(p.now)
	status.Reason = end.reason
	status.Phase = batchv1beta1.JobPhaseSucceeded
	eventType, told := corev1.EventTypeNormal, batchv1beta1.EventCompleted
	if end.condition == batchv1beta1.ConditionFailed {
		status.Phase = batchv1beta1.JobPhaseFailed
		eventType, told = corev1.EventTypeWarning, batchv1beta1.EventFailed
	}
	var facts []any
	if end.cause != nil {
		facts = end.cause.facts()
		p.record(*end.cause)
		p.decision.Irrevocable = true
	}
	p.setCondition(end.condition, metav1.ConditionTrue, end.reason, end.message)
	p.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, end.message)
	switch {
	case end.cause != nil:
		p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, end.cause.failure.Reason, end.cause.String())
	case meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionReplicaFailure) && !slices.ContainsFunc(p.replicas, (*replica).staysFailed):
		p.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, batchv1beta1.ReasonFinished, end.message)
	}
	p.setTasks()
	p.addEvent(eventType, told, "Finish", end.message, facts...)
}

// cleanUp deletes what the clean-up policy says of a finished job. Its phase, conditions and counts stay; its tasks follow
// when all is gone, once. After a success the leader's peers get some time to end by themselves. The job itself is deleted
// when its time to live is over.
func (p *planner) cleanUp() {
	p.releaseGroup()
	pending := false
	status := p.decision.Status
	peersMayEnd := ptr.Deref(status.CompletionTime, metav1.Time{}).Add(p.job.PeerGrace)
	for name, pod := range p.seen.Pods {
		switch {
		case pod.DeletionTimestamp != nil:
			pending = true
		case !policy.CleansUp(p.job.Spec.RunPolicy, pod):
			// Under None a pod may run on. The tasks then follow when it has ended.
			pending = pending || !policy.Ended(pod)
		case status.Phase == batchv1beta1.JobPhaseSucceeded && !p.isLeader(name) && !policy.Ended(pod) && p.now.Before(peersMayEnd):
			pending = true
			p.wakeUrgentlyAt(peersMayEnd)
		default:
			pending = true
			p.decision.CleanUps = append(p.decision.CleanUps, pod)
		}
	}
	sortByName(p.decision.CleanUps)
	if !pending {
		// Under None the tasks say that a pod which is missing is gone, and are then final.
		if p.job.Spec.RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone &&
			slices.ContainsFunc(p.replicas, func(r *replica) bool { return r.pod == nil && isAlive(r.recorded) }) {
			p.decision.Irrevocable = true
		}
		p.setTasks()
	}
	p.expire()
}

// expire deletes the job when its time to live is over. Pods of lost nodes come first: once the job is gone nobody frees them.
func (p *planner) expire() {
	expiry, ok := policy.Expiry(p.job.Spec.RunPolicy, p.decision.Status.CompletionTime)
	switch {
	case !ok:
	case p.now.Before(expiry), !p.job.Status.Finished(): // the end is written first
		p.wakeAt(expiry)
	case !p.hasLostPods:
		p.decision = decision{Status: p.job.Status, DeleteJob: true}
	}
}
