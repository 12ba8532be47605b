package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/trainlog"
)

// ReplicaFailure is a failure and the replica that failed.
type ReplicaFailure struct {
	// Replica is the replica that failed.
	Replica *Replica
	// Failure is how it failed.
	Failure policy.Failure
}

// String describes in one line which replica failed and how, and, if known, which process failed.
func (f ReplicaFailure) String() string {
	name, reason := f.Replica.Member.Name, f.Failure.Cause()
	if reason == batchv1beta1.ReasonDeleted {
		return fmt.Sprintf("replica %s was deleted", name)
	}
	if f.IsStall() {
		return fmt.Sprintf("replica %s stalled", name)
	}
	rank, process := f.Rank(), f.process()
	if rank != nil && process == "" {
		name = fmt.Sprintf("%s (rank %d)", name, *rank)
	}
	if f.Failure.ExitCode == nil {
		return fmt.Sprintf("replica %s failed (%s)", name, reason)
	}
	return fmt.Sprintf("replica %s failed with exit code %d (%s)%s", name, *f.Failure.ExitCode, reason, process)
}

// process returns the end of a message about a failure. The launcher can report which process failed first. The
// result describes how this process ended. It is empty if the launcher reports no exit code of a process.
func (f ReplicaFailure) process() string {
	rank, report := f.Rank(), f.Report()
	who := "a process"
	switch {
	case report.ExitCode == nil: // String has already named the rank, if it is known
		return ""
	case rank != nil:
		who = fmt.Sprintf("rank %d", *rank)
	}
	if culprit := f.Culprit(); culprit != f.Replica {
		who += " on " + culprit.Member.Name
	}
	if signal := trainlog.Signal(*report.ExitCode); signal != "" {
		return fmt.Sprintf(": %s was terminated by %s", who, signal)
	}
	return fmt.Sprintf(": %s ended with exit code %d", who, *report.ExitCode)
}

// Rank returns the rank of the process that failed. It is the rank that the launcher reports. Without such a report,
// it is the rank of the replica, if each replica is one process and no init container failed. Nil means that the rank
// is unknown.
func (f ReplicaFailure) Rank() *int32 {
	if f.Report().Rank == nil && f.Replica.Spec.RanksAreReplicas && !f.Failure.Init {
		return &f.Replica.Member.Rank
	}
	return f.Report().Rank
}

// Report returns the information of the launcher about the process that failed first. If a node or a device caused
// the failure, a report that names another replica is ignored, because the launcher does not know the cause.
func (f ReplicaFailure) Report() trainlog.Report {
	report := f.Failure.Report
	host, _, _ := strings.Cut(report.Host, ".")
	if policy.IsNodeFault(f.Failure.Reason) && host != "" && host != f.Replica.Member.Name {
		return trainlog.Report{}
	}
	return report
}

// Culprit returns the replica whose process failed first. If the launcher names a replica, it is this replica.
// Otherwise, it is the replica of the failure.
func (f ReplicaFailure) Culprit() *Replica {
	host, _, _ := strings.Cut(f.Report().Host, ".")
	if i := slices.IndexFunc(f.Replica.peers, func(r *Replica) bool { return r.Member.Name == host }); i >= 0 {
		return f.Replica.peers[i]
	}
	return f.Replica
}

// Node returns the name of the node on which the culprit ran. It is empty if the pod of the culprit was never bound
// to a node, or if the node is no longer known.
func (f ReplicaFailure) Node() string {
	culprit := f.Culprit()
	if culprit.Pod != nil {
		return culprit.Pod.Spec.NodeName
	}
	return culprit.Recorded.Node
}

// RootCause returns the root cause among the failures and deletions that restart all replicas. If there are none, it
// returns the stall that restarts all replicas. Nil means that there is no such stall either.
func (v *View) RootCause() *ReplicaFailure {
	var root *ReplicaFailure
	for _, r := range v.Replicas {
		failure := cmp.Or(r.Deletion(), r.Failure())
		if failure != nil && r.restartsAll(*failure) && (root == nil || policy.Precedes(*failure, root.Failure)) {
			root = &ReplicaFailure{Replica: r, Failure: *failure}
		}
	}
	return cmp.Or(root, v.stall())
}

// HasUnjudgedFailure reports whether the status records a failure that restarts all replicas, and its root cause has
// not been determined yet.
func (v *View) HasUnjudgedFailure() bool {
	return slices.ContainsFunc(v.Replicas, (*Replica).isUnjudged)
}

// Container names a container of a pod.
type Container struct{ Pod, Name string }
