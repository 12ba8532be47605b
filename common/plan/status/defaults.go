package status

import "tensorstack.dev/jobs/common/policy"

// dropDefaults discards the recorded defaults of a job that the user pauses. The user can then change the parts of the
// spec that the defaults depend on.
func (r *renderer) dropDefaults() {
	if r.pauses() {
		r.Status.Defaults = nil
	}
}

// recordDefaults records the defaults that hold for a job that has started. The start of a job changes the status. A
// job that an earlier version has started gets the record with the next change of its status, because a reconcile
// without changes writes nothing.
func (r *renderer) recordDefaults() {
	if r.Status.Defaults != nil || r.Status.StartTime == nil || r.Job.Status.Decided() || !r.Job.Spec.RunsHere() ||
		IsSame(r.Job.Status, r.Status) {
		return
	}
	defaults := policy.Defaults(r.Job.Spec)
	r.Status.Defaults = &defaults
}
