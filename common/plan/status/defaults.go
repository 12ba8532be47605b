package status

import "tensorstack.dev/jobs/common/policy"

// dropDefaults discards the recorded defaults of a job that the user pauses. The user can then change the parts of the
// spec that the defaults depend on.
func (r *renderer) dropDefaults() {
	if r.pauses() {
		r.Status.Defaults = nil
	}
}

// recordDefaults records the defaults that hold for a job that has started. They are only written together with
// another change of the status, such as the start of the job. So if an earlier version of the controller started the
// job, the defaults are recorded with the next change of the status.
func (r *renderer) recordDefaults() {
	if r.Status.Defaults != nil || r.Status.StartTime == nil || r.Job.Status.Decided() || !r.Job.Spec.RunsHere() ||
		IsSame(r.Job.Status, r.Status) {
		return
	}
	defaults := policy.Defaults(r.Job.Spec)
	r.Status.Defaults = &defaults
}
