package decide

import (
	"slices"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/trainlog"
)

// maxFailures is the maximum number of failures in a status.
const maxFailures = 5

// isRecorded reports whether status.failures already has the failure. The same failure can come up twice: first its
// replica stays failed, and later the user edits the spec so that the failure restarts or ends the job. If the pod is
// gone, the time of the failure is unknown and is not compared.
func (s *steps) isRecorded(f view.ReplicaFailure) bool {
	return f.Replica.Done && slices.ContainsFunc(s.Failures, func(recorded batchv1beta1.ReplicaFailure) bool {
		isSameTime := f.Failure.Time.IsZero() || recorded.Time.Equal(view.Stored(f.Failure.Time))
		return recorded.Replica == f.Culprit().Member.Name && ptr.Equal(recorded.ExitCode, f.Failure.ExitCode) && isSameTime
	})
}

// record adds a failure at the front of status.failures, unless it is already recorded.
func (s *steps) record(f view.ReplicaFailure) {
	s.RecordsFailure = true
	if s.isRecorded(f) {
		return
	}
	if f.Failure.Report.LacksOutput { // the pod exists, because its output was seen
		s.lacking = append(s.lacking, view.Container{Pod: f.Replica.Pod.Name, Name: f.Replica.MainContainer})
	}
	culprit, node := f.Culprit(), f.Node()
	failed := f.Failure.Time
	if failed.IsZero() || failed.After(s.Now) { // the clock of a node can be ahead
		failed = s.Now
	}
	record := batchv1beta1.ReplicaFailure{
		Replica:  culprit.Member.Name,
		Node:     node,
		ExitCode: f.Failure.ExitCode,
		Rank:     f.Rank(),
		Reason:   f.Failure.Reason,
		Time:     *view.Stored(failed),
		Counted:  !f.Failure.Ignored,
		Devices:  f.Failure.Devices,
		Message:  f.Failure.Detail(),
	}
	if code := f.Report().ExitCode; code != nil && record.Rank != nil {
		if record.RankSignal = trainlog.Signal(*code); record.RankSignal == "" {
			record.RankExitCode = code
		}
	}
	failures := slices.Insert(s.Failures, 0, record)
	s.Failures = failures[:min(len(failures), maxFailures)]
}
