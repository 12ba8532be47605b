package plan

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// neededTogether returns how many of the missing replicas the job needs before it can train. They are of use only
// together, and without them the other replicas only wait. It is 0 if somebody might use the replicas that exist:
//
//   - a replica is replaced alone, has ended, or has reported progress;
//   - an elastic job has its minimum;
//   - replicas of a job whose replicas restart alone run. They might not depend on each other;
//   - the job is in debug mode.
func (v *view) neededTogether() int {
	missing, present := 0, 0
	isCollective := v.job.Spec.Elastic != nil || policy.Scope(v.job.Spec) == batchv1beta1.RestartScopeJob
	for _, r := range v.replicas {
		hasStarted := r.isCurrent() && r.outcome.Phase != batchv1beta1.ReplicaPhasePending
		switch {
		case r.done, r.recorded.Attempt > 0, hasStarted && !isCollective, v.readingOf(r).Status != nil:
			return 0
		case r.isCurrent():
			present++
		default:
			missing++
		}
	}
	switch elastic := v.job.Spec.Elastic; {
	case v.job.Spec.RunMode.Debugging():
		return 0
	case elastic != nil:
		return max(0, min(missing, int(elastic.Least())-present))
	}
	return missing
}

// giveBackDue returns when the job gives its pods back, because a ResourceQuota refuses others that it needs. Jobs that
// keep such pods can wait for each other forever. It returns false if the job has no such pods.
func (v *view) giveBackDue() (time.Time, bool) {
	c := initialized(v.job.Status)
	if c == nil || c.Reason != batchv1beta1.ReasonResourceQuotaExceeded || v.neededTogether() == 0 {
		return time.Time{}, false
	}
	since, holds := c.LastTransitionTime.Time, false
	for _, r := range v.replicas {
		if r.isCurrent() {
			holds = true
			if created := r.pod.CreationTimestamp.Time; created.After(since) {
				since = created
			}
		}
	}
	//mutant:quota: a job keeps pods that it cannot use => return since, false
	return since.Add(policy.QuotaPatience(v.job.Kind.Kind + "/" + v.job.Name)), holds
}

// wakeToGiveBack requeues a job that will give its pods back.
func (s *steps) wakeToGiveBack() {
	if due, ok := s.giveBackDue(); ok {
		s.wakeAt(due)
	}
}

// giveBack stops the replicas of a job that a ResourceQuota keeps from training. The job starts again when the quota
// has room for all of them.
func (s *steps) giveBack() {
	s.evict("gave back the pods of the job: a ResourceQuota has no room for " +
		report.Count(s.neededTogether(), "replica") + " that the job needs, too")
}
