package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// restart restarts the replicas that ended and must run again. It counts the restarts and raises the attempts, so that
// the pods become obsolete. It also records failures that are not restarted. choose has already decided that the job
// goes on.
func (s *steps) restart() {
	if root := s.rootCause(); root != nil {
		s.restartAll(*root)
	} else {
		s.restartEach()
	}
}

// restartAll restarts all replicas together because of a failure.
func (s *steps) restartAll(root replicaFailure) {
	s.avoidBadNode(root)
	s.record(root)
	s.countFailure(root)
	s.Status.Attempt++
	for _, r := range s.replicas {
		s.countReplica(r)
	}
	s.view = s.inNewAttempt(jobAttempt(s.Status), s.restartDue(root.failure, s.Status.Attempt))
	message := fmt.Sprintf("restarting all %d replicas: %s", len(s.replicas), root)
	if len(s.replicas) == 1 {
		message = fmt.Sprintf("restarting the replica: %s", root)
	}
	if root.isStall() {
		message += ": " + root.failure.Message
	}
	s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart", message,
		append(root.facts(), "restarted", len(s.replicas))...)
}

// restartEach restarts the replicas that ended, without their peers.
func (s *steps) restartEach() {
	restarted := map[int]replica{}
	raiseAttempt := func(i int, r *replica, end policy.Failure) {
		s.countReplica(r)
		n := r.recorded.Attempt + 1
		restarted[i] = r.inAttempt(n, s.restartDue(end, n))
	}
	for i, r := range s.replicas {
		if r.succeeded() && policy.Restarts(r.member.Role.RestartPolicy, nil) {
			raiseAttempt(i, r, policy.Failure{})
			s.Restarts = append(s.Restarts, Restart{Cause: batchv1beta1.ReasonCompleted})
			continue
		}
		failure, isDeletion := r.failure(), false
		if failure == nil {
			failure, isDeletion = r.deletion(), true
		}
		if failure == nil {
			continue
		}
		failed := replicaFailure{replica: r, failure: *failure}
		isKnown := r.done // it failed before, and was not restarted
		mayRestart := isDeletion || policy.Restarts(r.member.Role.RestartPolicy, failure) &&
			(failure.Ignored || policy.BackoffLeft(s.job.Spec.RunPolicy, s.Status.BackoffCount))
		if mayRestart {
			s.avoidBadNode(failed)
		}
		if !isKnown {
			s.record(failed)
		}
		switch {
		case mayRestart:
			raiseAttempt(i, r, *failure)
			s.countFailure(failed)
			s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventRestarting, "Restart",
				fmt.Sprintf("restarting %s: %s", r.member.Name, failed), append(failed.facts(), "restarted", 1)...)
		case !isKnown:
			s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventReplicaFailed, "Observe",
				failed.String()+" and is not restarted", failed.facts()...)
		}
	}
	if len(restarted) > 0 {
		s.view = s.withRestarted(restarted)
	}
}

// countFailure counts a failure that restarts replicas.
func (s *steps) countFailure(f replicaFailure) {
	if !f.failure.Ignored {
		s.Status.BackoffCount++
	} else {
		s.Status.Disruptions++
	}
	restart := Restart{Cause: f.failure.Reason, Counted: !f.failure.Ignored}
	if pod := f.culprit().pod; policy.IsNodeFault(f.failure.Reason) && pod != nil && policy.HasStarted(pod) {
		restart.Node = f.node()
	}
	s.Restarts = append(s.Restarts, restart)
	s.recordsFailure = true
	s.lastRestarted = &f
}

// countReplica counts the restart of a replica for its type.
func (s *steps) countReplica(r *replica) {
	if s.restartCounts == nil {
		s.restartCounts = map[string]int32{}
	}
	s.restartCounts[r.member.Role.Type]++
}

// restartDue returns when the n-th restart is due, after the given end. Nil means immediately.
func (v *view) restartDue(end policy.Failure, n int32) *metav1.Time {
	ended := end.Time
	if ended.IsZero() || ended.After(v.now) { // the clock of a node can be ahead
		ended = v.now
	}
	due := stored(ended.Add(policy.RestartDelay(n, end.Reason)))
	if !due.After(v.now) {
		return nil
	}
	return due
}
