package framework

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// JobSpec is the spec of a job in the form that all kinds share. Each framework makes it from the spec of its kind.
type JobSpec struct {
	// Roles in rank order. The first role that has a replica holds the leader.
	Roles []Role
	// RunPolicy of the job.
	RunPolicy batchv1beta1.RunPolicy
	// DefaultRestartScope applies if RunPolicy sets no scope. See policy.FailureScope.
	DefaultRestartScope batchv1beta1.RestartScope
	// RanksAreReplicas reports whether each replica is one process of the training, and the rank of the process is the
	// rank of the replica.
	RanksAreReplicas bool
	// RunMode of the job. Nil means that the job runs as its templates specify.
	RunMode *batchv1beta1.RunMode
	// HasLauncher reports whether the framework launches the training with its own command line instead of the one in
	// the template. If it is true, the framework itself applies resumeSpecs, and chooses the default command of a
	// replica in debug mode.
	HasLauncher bool
	// Elastic configures elastic scaling. Nil means that the job does not scale.
	Elastic *batchv1beta1.ElasticConfig
	// Notice names the parts of the spec that have no effect for this kind. It is empty if there are none. See NoEffect.
	Notice string
	// Scheduler of the job. Nil means that the replicas are not scheduled as a gang, and that each template chooses its
	// scheduler.
	Scheduler *batchv1beta1.SchedulePolicy
	// ReportsProgress reports whether the training reports its progress. See progress.go.
	ReportsProgress bool
	// FirstProcess is where the process of rank 0 runs. This process reports the progress. Empty means
	// FirstProcessOfLeader.
	FirstProcess FirstProcess
	// RestartsInPlace reports whether the supervisor of the leader counts restarts in place. See supervisor.go.
	RestartsInPlace bool
	// ManagedBy is the controller that manages the job. Empty means the job controller.
	ManagedBy batchv1beta1.ManagedBy
}

// NoEffect names the parts of the spec that have no effect: the parts in Notice, and priorityClassName of the
// templates if the job is in a queue. It is empty if there are none.
func (s JobSpec) NoEffect() string {
	if s.T9kScheduler() == nil || !slices.ContainsFunc(s.Roles, Role.hasPriorityClass) {
		return s.Notice
	}
	const ofQueue = "priorityClassName of a template has no effect in a queue: " +
		"spec.scheduler.t9kScheduler.priority orders the jobs of the queue"
	if s.Notice == "" {
		return ofQueue
	}
	return s.Notice + "; " + ofQueue
}

// RunsHere reports whether the job controller runs the job.
func (s JobSpec) RunsHere() bool {
	return s.ManagedBy == "" || s.ManagedBy == batchv1beta1.ManagedByJobController
}

// RunsElsewhere reports whether MultiKueue runs the job in another cluster.
func (s JobSpec) RunsElsewhere() bool { return s.ManagedBy == batchv1beta1.ManagedByMultiKueue }

// T9kScheduler returns the settings for scheduling the replicas as a gang. Nil means that they are not scheduled as a
// gang.
func (s JobSpec) T9kScheduler() *batchv1beta1.T9kScheduler {
	if s.Scheduler == nil {
		return nil
	}
	return s.Scheduler.T9kScheduler
}

// Role is the replicas of one type.
type Role struct {
	// Type names the role.
	Type string
	// Replicas is the number of replicas, 0 or more. In an elastic job it is the role's share of the expected replicas.
	Replicas int32
	// ScalingWeight determines the role's share of the replicas of an elastic job, in proportion to the weights of all
	// roles.
	ScalingWeight int32
	// Awaited reports whether the other replicas of the job start only after the host names of this role's replicas
	// resolve. The other replicas always wait for the host name of the leader, even if Awaited is false for its role.
	Awaited bool
	// Serves reports whether the replicas only serve other replicas and do not exit by themselves. After the job has
	// succeeded, they are deleted once the replicas of all other roles have ended. The leader can have such a role.
	Serves bool
	// PeerGrace is how long the replicas of this role can take to end by themselves after the job has succeeded. It has
	// no effect if the job sets this time, or if the controller grants all roles a longer time.
	PeerGrace time.Duration
	// Indices of the replicas, in ascending order. Nil means 0 to Replicas-1. Only elastic jobs that were scaled down have
	// other indices.
	Indices []int32
	// RestartPolicy of each replica.
	RestartPolicy batchv1beta1.RestartPolicy
	// Template of each replica's pod. It is read-only.
	Template *corev1.PodTemplateSpec
}

func (r Role) hasPriorityClass() bool { return r.Template.Spec.PriorityClassName != "" }

// LeaderFirst returns the roles in rank order: the role that holds the leader first, the others in the given order.
// The role of the given type holds the leader if it has a replica. Otherwise the first role that has a replica holds
// the leader.
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
