package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// view is a job with its observation, interpreted as the current replicas and their states. It does not change after
// interpret has returned it. A restart, a pause or an end of the job makes a new view.
type view struct {
	job  Job
	seen Observation
	now  time.Time
	// roles are the roles of the job, with its current replicas.
	roles []framework.Role
	// gang has the members of all roles.
	gang framework.Gang
	// replicas has one replica for each member, in the same order.
	replicas []*replica
	// resized reports whether an elastic job adds or removes replicas.
	resized bool
}

// interpret returns the view of a job.
func interpret(job Job, seen Observation, now time.Time) view {
	v := view{job: job, seen: seen, now: now}
	v.roles, v.resized = v.presentRoles()
	v.gang = v.gangOf(v.roles)
	v.replicas = v.observeReplicas()
	if job.Spec.Elastic != nil && !job.Status.Decided() && !v.isPausedBeforeStart() {
		v = v.scaledDown()
	}
	return v
}

// gangOf returns the gang with the members of the given roles.
func (v *view) gangOf(roles []framework.Role) framework.Gang {
	gang := framework.NewGang(v.job.Namespace, v.job.Name, v.job.UID, v.job.ClusterDomain, jobAttempt(v.job.Status), roles)
	gang.Image, gang.HelperResources = v.job.Image, v.job.HelperResources
	gang.AllOrNothing = v.job.Spec.T9kScheduler() != nil
	return gang
}

// isPausedBeforeStart reports whether the user has requested a pause and the job has not started, or has not started
// again after a pause.
func (v *view) isPausedBeforeStart() bool {
	hasStarted := v.job.Status.StartTime != nil || v.hasUnreportedPods()
	return v.job.Spec.RunMode.Pausing() && !hasStarted
}

// hasUnreportedPods reports whether pods exist although the first status write is still deferred.
func (v *view) hasUnreportedPods() bool {
	return v.job.Status.ObservedGeneration == 0 && len(v.seen.Pods) > 0
}

// startTime returns when the job started. It is the recorded start time, or now if none is recorded. If pods exist
// although the first status write is still deferred, it is when the deferral began. After a restart of the controller
// that time is unknown, and the creation time of the oldest pod is used instead. A deferral that began before the job
// was created belongs to an earlier job of the same name.
func (v *view) startTime() *metav1.Time {
	if v.job.Status.StartTime != nil {
		return v.job.Status.StartTime
	}
	since := v.seen.StatusWaitsSince
	switch {
	case !v.hasUnreportedPods():
		return stored(v.now)
	case !since.IsZero() && !since.Before(v.job.Created):
		return stored(since)
	}
	first := v.now
	for _, pod := range v.seen.Pods {
		if pod.CreationTimestamp.Time.Before(first) {
			first = pod.CreationTimestamp.Time
		}
	}
	return stored(first)
}

// deadline returns when the job must have finished, and whether it has a deadline. A job has no deadline while the user
// requests a pause, and until it has started.
func (v *view) deadline() (time.Time, bool) {
	if v.job.Spec.RunMode.Pausing() || v.waitsForStart() {
		return time.Time{}, false
	}
	due, ok := policy.Deadline(v.job.Spec.RunPolicy, v.startTime())
	return due, ok
}

// hasOnlyCurrentPods reports whether each pod is the current pod of a replica. This is the usual case.
func (v *view) hasOnlyCurrentPods() bool {
	current := 0
	for _, r := range v.replicas {
		if r.isCurrent() {
			current++
		}
	}
	return current == len(v.seen.Pods)
}

// hasPodsOfEarlierJobAttempt reports whether pods of an earlier attempt of the whole job exist.
func (v *view) hasPodsOfEarlierJobAttempt() bool {
	if v.hasOnlyCurrentPods() {
		return false
	}
	for _, pod := range v.seen.Pods {
		if !isOfJobAttempt(pod, v.gang.Attempt) {
			return true
		}
	}
	return false
}

// hasLostPods reports whether the job has pods on lost nodes that will be deleted by force.
func (v *view) hasLostPods() bool {
	for _, pod := range v.seen.Pods {
		if _, ok := policy.ForceDeletion(pod, v.job.NodeLostDelay); ok {
			return true
		}
	}
	return false
}

// inNewAttempt returns the view of a new attempt of the whole job. Its pods are created no earlier than due. Nil means
// immediately.
func (v view) inNewAttempt(jobAttempt int32, due *metav1.Time) view {
	v.gang.Attempt = jobAttempt
	all := make([]replica, len(v.replicas))
	replicas := make([]*replica, len(v.replicas))
	for i, r := range v.replicas {
		all[i] = r.inAttempt(0, due)
		all[i].jobAttempt = jobAttempt
		replicas[i] = &all[i]
	}
	v.replicas = replicas
	return v
}

// withRestarted returns the view after some replicas were restarted. The map has the restarted replicas by their
// position in v.replicas.
func (v view) withRestarted(restarted map[int]replica) view {
	replicas := make([]*replica, len(v.replicas))
	for i, r := range v.replicas {
		if next, ok := restarted[i]; ok {
			r = &next
		}
		replicas[i] = r
	}
	v.replicas = replicas
	return v
}
