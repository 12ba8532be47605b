package plan

import "tensorstack.dev/jobs/common/policy"

// recordDefaults records the defaults that hold for a job that has started. job is the job as it was read. The start of
// a job changes the status. A job that an earlier version has started gets the record with the next change of its
// status, because a reconcile without changes writes nothing.
func (s *steps) recordDefaults(job Job) {
	if s.Status.Defaults != nil || s.Status.StartTime == nil || job.Status.Decided() || !job.Spec.RunsHere() ||
		isSameStatus(job.Status, s.Status) {
		return
	}
	defaults := policy.Defaults(job.Spec)
	s.Status.Defaults = &defaults
}
