package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/launcher"
	"tensorstack.dev/jobs/common/policy"
)

// replicaFailure is a failure and the replica that failed.
type replicaFailure struct {
	replica *replica
	failure policy.Failure
}

// String describes in one line which replica failed, how, and which of its processes failed.
func (f replicaFailure) String() string {
	name, reason := f.replica.member.Name, f.failure.Cause()
	if reason == batchv1beta1.ReasonDeleted {
		return fmt.Sprintf("replica %s was deleted", name)
	}
	if f.isStall() {
		return fmt.Sprintf("replica %s stalled", name)
	}
	rank, process := f.rank(), f.process()
	if rank != nil && process == "" {
		name = fmt.Sprintf("%s (rank %d)", name, *rank)
	}
	if f.failure.ExitCode == nil {
		return fmt.Sprintf("replica %s failed (%s)", name, reason)
	}
	return fmt.Sprintf("replica %s failed with exit code %d (%s)%s", name, *f.failure.ExitCode, reason, process)
}

// process describes how the process ended that the launcher reports as the first to fail. String appends the text. It
// is empty if the launcher reports no process.
func (f replicaFailure) process() string {
	rank, report := f.rank(), f.report()
	who := "a process"
	switch {
	case report.ExitCode == nil: // a report with an exit code also names the rank or the host
		return ""
	case rank != nil:
		who = fmt.Sprintf("rank %d", *rank)
	}
	if culprit := f.culprit(); culprit != f.replica {
		who += " on " + culprit.member.Name
	}
	if signal := launcher.Signal(*report.ExitCode); signal != "" {
		return fmt.Sprintf(": %s was terminated by %s", who, signal)
	}
	return fmt.Sprintf(": %s ended with exit code %d", who, *report.ExitCode)
}

// rank returns the rank of the process that failed. It is the rank in the output, otherwise the rank of the replica if
// each replica is one process. It is nil if the rank is unknown.
func (f replicaFailure) rank() *int32 {
	if f.report().Rank == nil && f.replica.spec.RanksAreReplicas && !f.failure.Init {
		return &f.replica.member.Rank
	}
	return f.report().Rank
}

// report returns the information of the launcher about the process that failed first. If the node or a device of the
// replica caused the failure, the launcher knows nothing of it, and might name a process of another replica.
func (f replicaFailure) report() launcher.Report {
	report := f.failure.Report
	host, _, _ := strings.Cut(report.Host, ".")
	if policy.IsNodeFault(f.failure.Reason) && host != "" && host != f.replica.member.Name {
		return launcher.Report{}
	}
	return report
}

// culprit returns the replica whose process failed first: the replica that the launcher names, otherwise the replica of
// the failure.
func (f replicaFailure) culprit() *replica {
	host, _, _ := strings.Cut(f.report().Host, ".")
	if i := slices.IndexFunc(f.replica.peers, func(r *replica) bool { return r.member.Name == host }); i >= 0 {
		return f.replica.peers[i]
	}
	return f.replica
}

// node returns the name of the node on which the culprit ran. It is empty if its pod was never bound to a node.
func (f replicaFailure) node() string {
	culprit := f.culprit()
	if culprit.pod != nil {
		return culprit.pod.Spec.NodeName
	}
	return culprit.recorded.Node
}

// facts returns the keys and values for a log line about the failure. They do not include the output of the replica.
func (f replicaFailure) facts() []any {
	facts := []any{"replica", f.culprit().member.Name, "cause", f.failure.Reason, "counted", !f.failure.Ignored}
	if f.failure.ExitCode != nil {
		facts = append(facts, "exitCode", *f.failure.ExitCode)
	}
	if rank := f.report().Rank; rank != nil {
		facts = append(facts, "rank", *rank)
	}
	return facts
}

// rootCause returns the root cause among the failures and deletions that restart all replicas. If there are none, it
// returns the stall that restarts all replicas. It returns nil if there is none of these.
func (v *view) rootCause() *replicaFailure {
	var root *replicaFailure
	for _, r := range v.replicas {
		failure := cmp.Or(r.deletion(), r.failure())
		if failure != nil && r.restartsAll(*failure) && (root == nil || policy.Precedes(*failure, root.failure)) {
			root = &replicaFailure{replica: r, failure: *failure}
		}
	}
	return cmp.Or(root, v.stall())
}

// Container names a container of a pod.
type Container struct{ Pod, Name string }

// unclear returns the main containers whose whole output might show that another failure was the root cause. It returns
// nil if the root cause is clear.
func (v *view) unclear() []Container {
	root := v.rootCause()
	if root == nil || !root.failure.IsUnclear() {
		return nil
	}
	var containers []Container
	for _, r := range v.replicas {
		if failure := r.failure(); failure != nil && r.pod != nil && failure.IsUnclear() {
			containers = append(containers, Container{Pod: r.pod.Name, Name: r.mainContainer})
		}
	}
	return containers
}

// maxFailures is how many failures a status keeps.
const maxFailures = 5

// isRecorded reports whether status.failures already has the failure. The failure of a replica that stays failed can
// restart or end the job later, when the user edits the spec. If its pod is gone, the time of the failure is unknown.
func (s *steps) isRecorded(f replicaFailure) bool {
	return f.replica.done && slices.ContainsFunc(s.Status.Failures, func(recorded batchv1beta1.ReplicaFailure) bool {
		isSameTime := f.failure.Time.IsZero() || recorded.Time.Equal(stored(f.failure.Time))
		return recorded.Replica == f.culprit().member.Name && ptr.Equal(recorded.ExitCode, f.failure.ExitCode) && isSameTime
	})
}

// record adds a failure at the front of status.failures, unless it is already recorded.
func (s *steps) record(f replicaFailure) {
	s.recordsFailure = true
	if s.isRecorded(f) {
		return
	}
	if f.failure.Report.LacksOutput && f.replica.pod != nil {
		s.lacking = append(s.lacking, Container{Pod: f.replica.pod.Name, Name: f.replica.mainContainer})
	}
	culprit, node := f.culprit(), f.node()
	failed := f.failure.Time
	if failed.IsZero() || failed.After(s.now) { // the clock of a node can be ahead
		failed = s.now
	}
	record := batchv1beta1.ReplicaFailure{
		Replica:  culprit.member.Name,
		Node:     node,
		ExitCode: f.failure.ExitCode,
		Rank:     f.rank(),
		Reason:   f.failure.Reason,
		Time:     *stored(failed),
		Counted:  !f.failure.Ignored,
		Devices:  f.failure.Devices,
		Message:  f.failure.Detail(),
	}
	if code := f.report().ExitCode; code != nil && record.Rank != nil {
		if record.RankSignal = launcher.Signal(*code); record.RankSignal == "" {
			record.RankExitCode = code
		}
	}
	failures := slices.Insert(s.Status.Failures, 0, record)
	s.Status.Failures = failures[:min(len(failures), maxFailures)]
}
