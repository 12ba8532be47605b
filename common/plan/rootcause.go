package plan

import (
	"cmp"
	"fmt"
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// replicaFailure is a failure and the replica that failed.
type replicaFailure struct {
	replica *replica
	failure policy.Failure
}

// String returns which replica failed and how, in one line.
func (f replicaFailure) String() string {
	if f.failure.Reason == batchv1beta1.ReasonDeleted {
		return fmt.Sprintf("replica %s was deleted", f.replica.member.Name)
	}
	name, reason := f.replica.member.Name, f.failure.Reason
	if f.failure.ExitCode != nil {
		return fmt.Sprintf("replica %s failed with exit code %d (%s)", name, *f.failure.ExitCode, reason)
	}
	return fmt.Sprintf("replica %s failed (%s)", name, reason)
}

// facts are the keys and values of a log line about the failure. The output of the replica is not among them.
func (f replicaFailure) facts() []any {
	facts := []any{"replica", f.replica.member.Name, "cause", f.failure.Reason, "counted", !f.failure.Ignored}
	if f.failure.ExitCode != nil {
		facts = append(facts, "exitCode", *f.failure.ExitCode)
	}
	return facts
}

// rootCause returns the failure or deletion that restarts all replicas and that the others followed from. It is nil if
// there is none.
func (v *view) rootCause() *replicaFailure {
	var root *replicaFailure
	for _, r := range v.replicas {
		failure := cmp.Or(r.deletion(), r.failure())
		if failure != nil && r.restartsAll(*failure) && (root == nil || policy.Precedes(*failure, root.failure)) {
			root = &replicaFailure{replica: r, failure: *failure}
		}
	}
	return root
}

// maxFailures is how many failures a status keeps.
const maxFailures = 5

// record puts a failure at the head of status.failures.
func (s *steps) record(f replicaFailure) {
	s.recordsFailure = true
	node := f.replica.recorded.Node
	if f.replica.pod != nil {
		node = f.replica.pod.Spec.NodeName
	}
	failed := f.failure.Time
	if failed.IsZero() {
		failed = s.now
	}
	failures := slices.Insert(s.Status.Failures, 0, batchv1beta1.ReplicaFailure{
		Replica:  f.replica.member.Name,
		Node:     node,
		ExitCode: f.failure.ExitCode,
		Reason:   f.failure.Reason,
		Time:     *stored(failed),
		Counted:  !f.failure.Ignored,
		Message:  f.failure.Detail(),
	})
	s.Status.Failures = failures[:min(len(failures), maxFailures)]
}
