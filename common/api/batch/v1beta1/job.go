package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// JobSpec is what the engine reads of a job's spec, whatever its kind. It is a view that each kind makes of its own spec,
// not an API type.
//
// +kubebuilder:object:generate=false
type JobSpec struct {
	// Roles in rank order: the first one with a replica holds the leader.
	Roles []Role
	// RunPolicy of the job.
	RunPolicy RunPolicy
	// DefaultRestartScope applies when RunPolicy sets none.
	DefaultRestartScope RestartScope
	// Rendezvous says that the replicas meet at the leader, and that one which gives up ends the meeting for all. Where
	// RunPolicy sets no scope, they then restart together, although DefaultRestartScope is Replica.
	Rendezvous bool
	// RunMode of the job; nil is the plain one.
	RunMode *RunMode
	// HasLauncher says that the kind launches the training by a command line of its own, and not by that of the template. It is then for
	// the kind to do what resumeSpecs say, and what a replica runs in debug mode unless the user says what.
	HasLauncher bool
	// Elastic scaling; nil where it is off or has no effect.
	Elastic *ElasticConfig
	// Notice says what of the spec has no effect; empty if all has.
	Notice string
	// Scheduler of the job; nil is the cluster's default.
	Scheduler *SchedulePolicy
}

// Role is the replicas of one type.
//
// +kubebuilder:object:generate=false
type Role struct {
	// Type names the role.
	Type string
	// Replicas is the number of replicas, 0 or more; in an elastic job the role's part of those that are expected now.
	Replicas int32
	// ScalingWeight is the role's share of an elastic job.
	ScalingWeight int32
	// Awaited says that every other replica waits until the names of this type's replicas resolve before it starts. The leader's
	// is always waited for.
	Awaited bool
	// Indices of the replicas, ascending. Nil is 0 to Replicas-1: only an elastic job that was scaled down has others.
	Indices []int32
	// RestartPolicy of each replica.
	RestartPolicy RestartPolicy
	// Template of each replica's pod. It is read only.
	Template *corev1.PodTemplateSpec
}

// LeaderFirst returns the roles in rank order: the role that holds the leader, then the others as they stand. The leader's
// role is the one of the given type if it has a replica, else the first that has one.
func LeaderFirst(leaderType string, roles []Role) []Role {
	hasReplica := func(r Role) bool { return r.Replicas > 0 }
	lead := slices.IndexFunc(roles, func(r Role) bool { return r.Type == leaderType && hasReplica(r) })
	if lead < 0 {
		lead = slices.IndexFunc(roles, hasReplica)
	}
	if lead <= 0 {
		return roles
	}
	ordered := append(make([]Role, 0, len(roles)), roles[lead])
	ordered = append(ordered, roles[:lead]...)
	return append(ordered, roles[lead+1:]...)
}
