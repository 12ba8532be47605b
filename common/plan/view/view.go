// Package view has the state of a job: its replicas, their attempts and failures, its admission, and its deadlines.
// It decides nothing. A complete view is never changed.
package view

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// CacheDelay is how long the controller waits for a stale cache to catch up with the API server.
const CacheDelay = 500 * time.Millisecond

// View is a job with its observation, interpreted as the current replicas and their states. A restart, a pause or an
// end of the job makes a new view.
type View struct {
	// Job is the job, with the status as it was read.
	Job Job
	// Seen are the observed objects of the job.
	Seen Observation
	// Now is the time of the view.
	Now time.Time
	// Standing is the effect of the admission on the job.
	Standing Standing
	// Roles are the roles of the job, with its current replicas.
	Roles []framework.Role
	// Peers has the members of all roles.
	Peers framework.Peers
	// Replicas has one replica for each member, in the same order.
	Replicas []*Replica
}

// Look returns the view of a job with the given roles.
func Look(job Job, seen Observation, now time.Time, roles []framework.Role) View {
	v := View{Job: job, Seen: seen, Now: now, Roles: roles}
	if seen.Admission != nil {
		v.Standing = seen.Admission.Standing(job.UID)
	}
	v.Peers = v.PeersOf(roles)
	v.Replicas = v.observeReplicas()
	return v
}

// PeersOf returns the peers with the members of the given roles.
func (v *View) PeersOf(roles []framework.Role) framework.Peers {
	attempt := CountsOf(v.Job.Status).JobAttempt()
	peers := framework.NewPeers(v.Job.Namespace, v.Job.Name, v.Job.UID, v.Job.ClusterDomain, attempt, roles)
	peers.Image, peers.HelperResources = v.Job.Image, v.Job.HelperResources
	peers.IsGang = v.Job.Spec.T9kScheduler() != nil
	return peers
}

// HasUnreportedPods reports whether pods exist although the first status write is still deferred.
func (v *View) HasUnreportedPods() bool {
	return v.Job.Status.ObservedGeneration == 0 && len(v.Seen.Pods) > 0
}

// HasPodsOfAttempt reports whether pods of the current attempt of the whole job exist.
func (v *View) HasPodsOfAttempt() bool {
	attempt := CountsOf(v.Job.Status).JobAttempt()
	for _, pod := range v.Seen.Pods {
		if isOfJobAttempt(pod, attempt) {
			return true
		}
	}
	return false
}

// StartedAt returns when the job started. The first case that applies decides:
//
//   - If the status records a start time, it is that time.
//   - If no pods exist, or if the first status is already written, it is now.
//   - If the controller knows when the deferral of the first status write began, it is that time. A deferral that
//     began before the job was created does not count, because it belongs to an earlier job of the same name.
//   - Otherwise, for example after a restart of the controller, it is the creation time of the oldest pod.
func (v *View) StartedAt() *metav1.Time {
	if v.Job.Status.StartTime != nil {
		return v.Job.Status.StartTime
	}
	since := v.Seen.StatusWaitsSince
	switch {
	case !v.HasUnreportedPods():
		return Stored(v.Now)
	case !since.IsZero() && !since.Before(v.Job.Created):
		return Stored(since)
	}
	first := v.Now
	for _, pod := range v.Seen.Pods {
		if pod.CreationTimestamp.Time.Before(first) {
			first = pod.CreationTimestamp.Time
		}
	}
	return Stored(first)
}

// Deadline returns when the job must have finished, or zero if it has no deadline. A job has no deadline while the user
// requests a pause, and while it has not started because it waits for its admission.
func (v *View) Deadline() time.Time {
	if v.Job.Spec.RunMode.Pausing() || v.WaitsForStart() {
		return time.Time{}
	}
	return policy.After(v.StartedAt(), v.Job.Spec.RunPolicy.ActiveDeadlineSeconds)
}

// ByName returns the replicas by their names.
func (v *View) ByName() map[string]*Replica {
	replicas := make(map[string]*Replica, len(v.Replicas))
	for _, r := range v.Replicas {
		replicas[r.Member.Name] = r
	}
	return replicas
}

// HasOnlyCurrentPods reports whether each pod is the current pod of a replica. This is the usual case.
func (v *View) HasOnlyCurrentPods() bool {
	current := 0
	for _, r := range v.Replicas {
		if r.IsCurrent() {
			current++
		}
	}
	return current == len(v.Seen.Pods)
}

// HasPodsOfEarlierJobAttempt reports whether pods of an earlier attempt of the whole job exist.
func (v *View) HasPodsOfEarlierJobAttempt() bool {
	isEarlier := func(pod *corev1.Pod) bool { return !isOfJobAttempt(pod, v.Peers.Attempt) }
	return !v.HasOnlyCurrentPods() && slices.ContainsFunc(slices.Collect(maps.Values(v.Seen.Pods)), isEarlier)
}

// InNewAttempt returns the view of a new attempt of the whole job. The parameter due is the earliest time at which
// pods of this attempt are created. Nil means immediately.
func (v View) InNewAttempt(jobAttempt int32, due *metav1.Time) View {
	v.Peers.Attempt = jobAttempt
	all := make([]Replica, len(v.Replicas))
	replicas := make([]*Replica, len(v.Replicas))
	for i, r := range v.Replicas {
		all[i] = r.InAttempt(0, due)
		all[i].jobAttempt = jobAttempt
		replicas[i] = &all[i]
	}
	v.Replicas = replicas
	return v
}
