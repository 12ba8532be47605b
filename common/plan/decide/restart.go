package decide

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// restart restarts the replicas that have ended and must run again. It counts the restarts and raises the attempts,
// so that the present pods become obsolete. It also records failures that cause no restart. When restart is called,
// choose has already decided that the job does not end.
func (s *steps) restart() {
	if root := s.RootCause(); root != nil {
		s.restartAll(*root)
	} else {
		s.restartEach()
	}
}

// restartAll restarts all replicas together because of a failure.
func (s *steps) restartAll(root view.ReplicaFailure) {
	s.avoidBadNode(root)
	s.record(root)
	s.countFailure(root)
	s.Counts.Restarts++
	for _, r := range s.Replicas {
		s.countReplica(r)
	}
	s.View = s.InNewAttempt(s.Counts.JobAttempt(), s.restartDue(root.Failure, s.Counts.Restarts))
	s.happens(RestartsAll{Cause: root})
}

// restartEach restarts each replica that has ended and must run again, without its peers.
func (s *steps) restartEach() {
	restarted := map[int]view.Replica{}
	raiseAttempt := func(i int, r *view.Replica, end policy.Failure) {
		s.countReplica(r)
		n := r.Recorded.Attempt + 1
		restarted[i] = r.InAttempt(n, s.restartDue(end, n))
	}
	for i, r := range s.Replicas {
		if r.Succeeded() && policy.Restarts(r.Member.Role.RestartPolicy, nil) {
			raiseAttempt(i, r, policy.Failure{})
			s.Restarts = append(s.Restarts, Restart{Cause: batchv1beta1.ReasonCompleted})
			continue // even if the kubelet has evicted its pod since
		}
		failure, isDeletion := r.Failure(), false
		if failure == nil {
			failure, isDeletion = r.Deletion(), true
		}
		if failure == nil {
			continue
		}
		failed := view.ReplicaFailure{Replica: r, Failure: *failure}
		isKnown := r.Done // it failed before, and was not restarted
		mayRestart := isDeletion || policy.Restarts(r.Member.Role.RestartPolicy, failure) &&
			s.hasRestartLeft(*failure)
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
			s.happens(RestartsOne{Failure: failed})
		case !isKnown:
			s.happens(StaysFailed{Failure: failed})
		}
	}
	if len(restarted) > 0 {
		s.Replicas = slices.Clone(s.Replicas) // the view before the restarts keeps its replicas
		for i, r := range restarted {
			s.Replicas[i] = &r
		}
	}
}

// countFailure counts a failure that restarts replicas.
func (s *steps) countFailure(f view.ReplicaFailure) {
	s.countBackoff(f.Failure)
	restart := Restart{Cause: f.Failure.Reason, Counted: !f.Failure.Ignored}
	if pod := f.Culprit().Pod; policy.IsNodeFault(f.Failure.Reason) && pod != nil && policy.HasStarted(pod) {
		restart.Node = f.Node()
	}
	s.Restarts = append(s.Restarts, restart)
	s.RecordsFailure = true
	s.Restarted = &f
}

// countReplica counts the restart of a replica.
func (s *steps) countReplica(r *view.Replica) {
	if s.RestartCounts == nil {
		s.RestartCounts = map[string]int32{}
	}
	s.RestartCounts[r.Member.Role.Type]++
}

// restartDue returns when to restart a replica for the n-th time after the given end of its pod. Nil means
// immediately.
func (s *steps) restartDue(end policy.Failure, n int32) *metav1.Time {
	ended := end.Time
	if ended.IsZero() || ended.After(s.Now) { // the clock of a node can be ahead
		ended = s.Now
	}
	due := view.Stored(ended.Add(policy.RestartDelay(n, end.Reason)))
	if !due.After(s.Now) {
		return nil
	}
	return due
}
