package decide

import (
	"fmt"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// neededTogether returns how many of the missing replicas the job needs before it can train. Until the job has all of
// these, neither they nor the existing replicas are of use. The result is 0 if the existing replicas might be of use
// without the missing ones:
//
//   - an elastic job has its minimum;
//   - a job that is not elastic has restarted a replica without its peers, or has reported a step;
//   - a replica has ended;
//   - the replicas might not depend on each other, because a failure of one does not restart the others;
//   - the job is in debug mode.
func (s *steps) neededTogether() int {
	isCollective := s.isElastic() || s.Peers.IsGang ||
		policy.Scope(s.Job.Spec) != batchv1beta1.RestartScopeReplica
	if !isCollective || s.Job.Spec.RunMode.Debugging() {
		return 0
	}
	missing, present := 0, 0
	for _, r := range s.Replicas {
		report := s.ReadingOf(r).Status
		trains := r.Recorded.Attempt > 0 || report != nil && report.Step != nil
		switch {
		case r.Done, r.Succeeded(), trains && !s.isElastic():
			return 0
		case r.IsCurrent():
			present++
		default:
			missing++
		}
	}
	return s.lackingToTrain(missing, present)
}

// giveBackDue returns when the job must give back the quota of its pods, because a ResourceQuota rejects other pods
// that the job needs. If jobs kept their pods, two jobs could wait for each other forever. The result is zero if the
// job need not give back any quota.
func (s *steps) giveBackDue() (due time.Time) {
	c := view.Initialized(s.Job.Status)
	if c == nil || c.Reason != batchv1beta1.ReasonResourceQuotaExceeded || s.neededTogether() == 0 {
		return time.Time{}
	}
	for _, r := range s.Replicas {
		if r.IsCurrent() {
			since := view.Later(c.LastTransitionTime.Time, r.Pod.CreationTimestamp.Time)
			due = view.Later(due, since.Add(policy.QuotaPatience))
		}
	}
	return due
}

// giveBack stops the replicas of a job that cannot train, because a ResourceQuota has no room for other replicas. The
// job starts again when the quota has room for all of them.
func (s *steps) giveBack() {
	s.evict(fmt.Sprintf("deleted the pods of the job, because a ResourceQuota has no room for %s that it needs together "+
		"with them", report.Count(s.neededTogether(), "replica")))
}
