package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// maxFailures is how many failures a status keeps.
const maxFailures = 5

// restart accounts for the replicas that ended and are to run again: it raises their attempt, which makes their pods
// obsolete. Whether the job may go on at all was decided before, by ending.
func (p *planner) restart() {
	p.restartJob()
	p.restartReplicas()
}

// restartJob restarts every replica together, if one failed or was lost that takes all with it.
func (p *planner) restartJob() {
	root := p.rootFailure()
	if root == nil {
		return
	}
	p.record(*root)
	p.account(*root)
	status := &p.decision.Status
	status.Attempt++
	p.gang.Attempt = jobAttempt(*status)
	due := p.restartDue(root.failure.Time, status.Attempt)
	for _, r := range p.replicas {
		r.jobAttempt = p.gang.Attempt
		r.restart(0, due)
	}
	p.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart",
		fmt.Sprintf("restarting all %d replicas: %s", len(p.replicas), root), append(root.facts(), "restarted", len(p.replicas))...)
}

// restartReplicas restarts the replicas that ended one by one. Where one failure takes all, only those are left that
// succeeded and that their policy restarts nevertheless.
func (p *planner) restartReplicas() {
	for _, r := range p.replicas {
		if r.succeeded() && policy.Restarts(r.member.Role.RestartPolicy, nil) {
			p.raiseAttempt(r, p.now)
			p.decision.Restarts = append(p.decision.Restarts, restarted{Cause: batchv1beta1.ReasonCompleted})
			continue
		}
		failure, deleted := r.failure(), false
		if failure == nil {
			failure, deleted = r.deletion(), true
		}
		if failure == nil {
			continue
		}
		cause := rootCause{replica: r, failure: *failure}
		known := r.done // it stayed failed until now
		mayRestart := deleted || policy.Restarts(r.member.Role.RestartPolicy, failure) &&
			(failure.Free || policy.BackoffLeft(p.job.Spec.RunPolicy, p.decision.Status.BackoffCount))
		if !known {
			p.record(cause)
			p.decision.Irrevocable = true
		}
		switch {
		case mayRestart:
			p.raiseAttempt(r, failure.Time)
			p.account(cause)
			p.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart", fmt.Sprintf("restarting %s", cause), append(cause.facts(), "restarted", 1)...)
		case !known:
			p.addEvent(corev1.EventTypeWarning, batchv1beta1.EventReplicaFailed, "Observe", cause.String()+" and is not restarted", cause.facts()...)
		}
	}
}

func (p *planner) raiseAttempt(r *replica, ended time.Time) {
	n := r.recorded.Attempt + 1
	r.restart(n, p.restartDue(ended, n))
}

// restartDue returns when the n-th restart, after an end at the given time, is due; nil is at once.
func (p *planner) restartDue(ended time.Time, n int32) *metav1.Time {
	if ended.IsZero() || ended.After(p.now) { // the clock of a node may be ahead
		ended = p.now
	}
	due := p.timestamp(ended.Add(policy.RestartDelay(n)))
	if !due.After(p.now) {
		return nil
	}
	return due
}

// rootCause is a failure and the replica that it befell.
type rootCause struct {
	replica *replica
	failure policy.Failure
}

// String says which replica failed and how, in one line.
func (c rootCause) String() string {
	if c.failure.Reason == batchv1beta1.ReasonDeleted {
		return fmt.Sprintf("replica %s was deleted", c.replica.member.Name)
	}
	if c.failure.ExitCode != nil {
		return fmt.Sprintf("replica %s failed with exit code %d (%s)", c.replica.member.Name, *c.failure.ExitCode, c.failure.Reason)
	}
	return fmt.Sprintf("replica %s failed (%s)", c.replica.member.Name, c.failure.Reason)
}

// facts are what the log says of the failure: not what the replica printed.
func (c rootCause) facts() []any {
	facts := []any{"replica", c.replica.member.Name, "cause", c.failure.Reason, "counted", !c.failure.Free}
	if c.failure.ExitCode != nil {
		facts = append(facts, "exitCode", *c.failure.ExitCode)
	}
	return facts
}

// reportsDue returns until when it is too early to say which failure the others followed from, if one takes all. A
// member that was taken away is the cause for sure, and those that have ended have nothing more to report.
func (p *planner) reportsDue() (time.Time, bool) {
	if !slices.ContainsFunc(p.replicas, (*replica).mayFail) {
		return time.Time{}, false
	}
	root := p.rootFailure()
	if root == nil || root.failure.Free {
		return time.Time{}, false
	}
	seen := p.now
	c := meta.FindStatusCondition(p.job.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	if c != nil && c.Status == metav1.ConditionTrue && p.awaitsReports() {
		seen = c.LastTransitionTime.Time
	}
	return policy.ReportsDue(seen, p.now, p.job.FailureWindow)
}

// awaitReports decides nothing yet. It records what has failed first, so that it counts whatever becomes of its pod; the peers,
// of which there may be many, are only looked at when their time is over.
func (p *planner) awaitReports(due time.Time) {
	p.wakeUrgentlyAt(due)
	if p.awaitsReports() {
		return
	}
	p.setTasks()
	p.settleReplicaFailure()
	// It may be true of an earlier failure, too.
	meta.FindStatusCondition(p.decision.Status.Conditions, batchv1beta1.ConditionReplicaFailure).LastTransitionTime = *p.timestamp(p.now)
	p.decision.Irrevocable = true
}

// awaitsReports says that a failure is recorded which takes all, and is yet to be judged.
func (p *planner) awaitsReports() bool {
	return slices.ContainsFunc(p.replicas, func(r *replica) bool { return r.staysFailed() && r.takesAll(*recordedFailure(r.recorded)) })
}

// rootFailure returns the failure or deletion that takes all replicas and that the others followed from, or nil if there is
// none.
func (p *planner) rootFailure() *rootCause {
	var root *rootCause
	for _, r := range p.replicas {
		failure := cmp.Or(r.deletion(), r.failure())
		if failure != nil && r.takesAll(*failure) && (root == nil || policy.Precedes(*failure, root.failure)) {
			root = &rootCause{replica: r, failure: *failure}
		}
	}
	return root
}

// account counts a failure that is followed by a restart.
func (p *planner) account(cause rootCause) {
	if !cause.failure.Free {
		p.decision.Status.BackoffCount++
	}
	p.decision.Restarts = append(p.decision.Restarts, restarted{Cause: cause.failure.Reason, Counted: !cause.failure.Free})
	p.decision.Irrevocable = true
	p.accounted = &cause
}

// record puts a failure at the head of status.failures.
func (p *planner) record(cause rootCause) {
	node := cause.replica.recorded.Node
	if cause.replica.pod != nil {
		node = cause.replica.pod.Spec.NodeName
	}
	failed := cause.failure.Time
	if failed.IsZero() {
		failed = p.now
	}
	entry := batchv1beta1.ReplicaFailure{
		Replica:  cause.replica.member.Name,
		Node:     node,
		ExitCode: cause.failure.ExitCode,
		Reason:   cause.failure.Reason,
		Time:     *p.timestamp(failed),
		Counted:  !cause.failure.Free,
		Message:  cause.failure.Detail(),
	}
	failures := slices.Insert(p.decision.Status.Failures, 0, entry)
	p.decision.Status.Failures = failures[:min(len(failures), maxFailures)]
}
