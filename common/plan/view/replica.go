package view

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// Replica is one member of the job, with its recorded state and its observed state.
type Replica struct {
	// Member is the replica as a member of framework.Peers.
	Member *framework.Member
	// Recorded is the replica's entry in the status.
	Recorded batchv1beta1.ReplicaStatus
	// Pod is the pod of the replica, of the current or another attempt. Nil means none.
	Pod *corev1.Pod
	// podAttempt is the attempt in the label of the pod.
	podAttempt string
	// jobAttempt is the current attempt of the whole job.
	jobAttempt int32
	// MainContainer is the name of the main container of the pod. Its exit is the exit of the replica.
	MainContainer string
	// devices are the unhealthy devices of the pod. The list is empty if the end of the replica is already accounted
	// for.
	devices []batchv1beta1.UnhealthyDevice
	// Outcome is the state of the pod.
	Outcome policy.Outcome
	// Outdated reports whether the cache has an older state of the pod than the status: the pod is pending, but the
	// status records it as running.
	Outdated bool
	// gone reports whether the status records a live pod that no longer exists.
	gone bool
	// ranWithAll reports whether the status shows that the job runs and, if the job is elastic, that this replica runs.
	// Then other replicas can depend on this one.
	ranWithAll bool
	// Done reports whether the status records the end of the replica in this attempt: it succeeded, or it failed and has
	// not been restarted. Done stays true whatever happens to the pod.
	Done bool
	// Spec is the spec of the job.
	Spec *framework.JobSpec
	// peers are all replicas of the job, this one included.
	peers []*Replica
}

// Attempt returns the current attempt of the replica. Pods of other attempts are obsolete.
func (r *Replica) Attempt() Attempt { return Attempt{Job: r.jobAttempt, Replica: r.Recorded.Attempt} }

// IsObsolete reports whether the pod belongs to another attempt than the current one. The end of such a pod is
// ignored, and the pod is deleted.
func (r *Replica) IsObsolete() bool {
	return r.Pod != nil && r.podAttempt != r.Attempt().String()
}

// IsReplaced reports whether the replica gets a new pod when its present pod is gone. It must not be called for a
// replica that is done, because such a replica gets no new pod.
func (r *Replica) IsReplaced() bool {
	return r.IsObsolete() || r.Outcome.Terminating && r.Failure() == nil
}

// IsCurrent reports whether the replica has a pod of the current attempt.
func (r *Replica) IsCurrent() bool { return r.Pod != nil && !r.IsObsolete() }

// Failure returns the failure of the replica in its current attempt, or nil. A pod that is being deleted has failed
// if Kubernetes disrupted it. If somebody else deleted the pod, its exit is ignored. If the status records a failure
// that restarts all replicas, the failure counts even if the pod is gone.
func (r *Replica) Failure() *policy.Failure {
	switch {
	case r.Pod == nil && r.isUnjudged():
		return r.recordedFailure()
	case r.IsObsolete():
		return nil
	case r.losesDevice():
		failure := policy.DeviceFailure(r.devices)
		return &failure
	case !r.Outcome.Terminating || r.Done:
		return r.Outcome.Failure
	case r.Outcome.Disruption != "":
		return failureOfDeleted(r.Pod, r.Outcome.Disruption)
	default:
		return nil
	}
}

// losesDevice reports whether the replica fails because of an unhealthy device, although its main container has not
// ended. A replica goes on if its restart policy would not restart it, since it might succeed. It also goes on in
// debug mode, since a user might be working in it.
func (r *Replica) losesDevice() bool {
	if len(r.devices) == 0 || r.Outcome.Terminating || r.Spec.RunMode.Debugging() {
		return false
	}
	hasEnded := r.Outcome.Phase != batchv1beta1.ReplicaPhaseRunning && r.Outcome.Phase != batchv1beta1.ReplicaPhasePending
	failure := policy.DeviceFailure(r.devices)
	return !hasEnded && policy.Restarts(r.Member.Role.RestartPolicy, &failure)
}

// Deletion returns the failure of a replica whose pod somebody is deleting or has deleted, or nil. Such a replica is
// restarted whatever its restart policy is, because its program has not failed. Before all replicas have run, a
// deletion is not a failure: no peer depends on the pod yet, and the pod is created again.
func (r *Replica) Deletion() *policy.Failure {
	switch {
	case !r.ranWithAll:
		return nil
	case r.gone:
		return &policy.Failure{Reason: batchv1beta1.ReasonDeleted, Ignored: true}
	case r.Outcome.Terminating && r.Outcome.Disruption == "" && !r.Done && !r.IsObsolete():
		return failureOfDeleted(r.Pod, batchv1beta1.ReasonDeleted)
	default:
		return nil
	}
}

// recordedFailure returns the failure that the status records for a replica whose pod is gone.
func (r *Replica) recordedFailure() *policy.Failure {
	failure := &policy.Failure{Reason: batchv1beta1.ReasonError}
	for _, c := range r.Recorded.Containers {
		if c.Name == r.MainContainer && c.ExitCode != nil && *c.ExitCode != 0 {
			failure.ExitCode, failure.Reason = c.ExitCode, cmp.Or(c.Reason, failure.Reason)
		}
	}
	return failure
}

// failureOfDeleted returns the failure of a replica whose pod is being deleted, but not by the controller.
func failureOfDeleted(pod *corev1.Pod, reason string) *policy.Failure {
	return &policy.Failure{Reason: reason, Time: policy.DeletedAt(pod), Ignored: true}
}

// Succeeded reports whether the replica succeeded in its current attempt. A pod that exits while it is being deleted
// has not finished its work, unless its main container ended before the deletion.
func (r *Replica) Succeeded() bool {
	if r.Done {
		return r.Recorded.Phase == batchv1beta1.ReplicaPhaseSucceeded
	}
	return !r.IsObsolete() && !r.Outcome.Terminating && r.Outcome.Phase == batchv1beta1.ReplicaPhaseSucceeded
}

// Runs reports whether the replica runs, as far as its kubelet has reported.
func (r *Replica) Runs() bool {
	return r.Outcome.Phase == batchv1beta1.ReplicaPhaseRunning && !r.IsObsolete()
}

// Works reports whether the replica runs and is not being deleted, or has succeeded.
func (r *Replica) Works() bool {
	return r.Succeeded() || r.Runs() && !r.Outcome.Terminating
}

// Waits reports whether the replica has not ended, and its pod is missing, pending, in an unknown state or being
// replaced.
func (r *Replica) Waits() bool {
	switch {
	case r.Done:
		return false
	case r.IsReplaced(), r.Pod == nil:
		return true
	default:
		return r.Outcome.Phase == batchv1beta1.ReplicaPhaseUnknown || r.Outcome.Phase == batchv1beta1.ReplicaPhasePending
	}
}

// restartsAll reports whether a restart after the failure would include all replicas, and not only the replica that
// failed.
func (r *Replica) restartsAll(failure policy.Failure) bool {
	scope := policy.FailureScope(*r.Spec, r.Member.Role.RestartPolicy, r.Member.Rank == 0, failure)
	return scope == batchv1beta1.RestartScopeJob
}

// StaysFailed reports whether the status shows that the replica failed and has not been restarted.
func (r *Replica) StaysFailed() bool {
	return r.Recorded.Phase == batchv1beta1.ReplicaPhaseFailed
}

// isUnjudged reports whether the status records a failure of the replica that restarts all replicas or ends the job,
// but its root cause has not been determined yet.
func (r *Replica) isUnjudged() bool { return r.StaysFailed() && r.restartsAll(*r.recordedFailure()) }

// HasDonePart reports whether the replica has ended in its current attempt. The restart of a replica begins a new
// attempt.
func (r *Replica) HasDonePart() bool { return r.Done || r.Succeeded() || r.Failure() != nil }

// observeReplicas returns the replicas of the job, in the order of the members.
func (v *View) observeReplicas() []*Replica {
	recorded := recordedReplicas(v.Job.Status.Tasks)
	wasRunning := IsRunning(v.Job.Status)
	all := make([]Replica, len(v.Peers.Members)) // one allocation
	replicas := make([]*Replica, 0, len(all))
	for i := range v.Peers.Members {
		r, member := &all[i], &v.Peers.Members[i]
		*r = Replica{
			Member:     member,
			Recorded:   ptr.Deref(recorded(member.Name), batchv1beta1.ReplicaStatus{}),
			Pod:        v.Seen.Pods[member.Name],
			jobAttempt: v.Peers.Attempt,
			ranWithAll: wasRunning,
			Spec:       &v.Job.Spec,
		}
		r.Recorded.Name = member.Name
		if v.Job.Spec.Elastic != nil {
			// An elastic job can run although some of its replicas do not.
			r.ranWithAll = r.ranWithAll && r.Recorded.Phase == batchv1beta1.ReplicaPhaseRunning
		}
		if r.Pod != nil {
			r.podAttempt = r.Pod.Labels[batchv1beta1.LabelAttempt]
		}
		r.gone = r.Pod == nil && IsAlive(r.Recorded)
		r.MainContainer = v.mainContainerOf(member.Role.Template)
		r.Done = HasEnded(r.Recorded.Phase)
		if !r.Done || r.isUnjudged() {
			r.devices = policy.UnhealthyDevices(r.Pod, r.MainContainer)
		}
		r.Outcome = policy.Judge(r.Pod, r.MainContainer, r.devices)
		r.Outdated = r.Pod != nil && r.Pod.UID == r.Recorded.UID &&
			r.Recorded.Phase == batchv1beta1.ReplicaPhaseRunning && r.Outcome.Phase == batchv1beta1.ReplicaPhasePending
		if r.Outdated {
			r.Outcome.Phase = r.Recorded.Phase
		}
		replicas = append(replicas, r)
	}
	for _, r := range replicas {
		r.peers = replicas
	}
	return replicas
}

// recordedReplicas returns a function that looks up the entry of a replica by name. The entry is nil if there is none.
// The function builds a map only if the names are not looked up in the order of the status, which is unusual.
func recordedReplicas(tasks []batchv1beta1.TaskStatus) func(name string) *batchv1beta1.ReplicaStatus {
	var all []*batchv1beta1.ReplicaStatus
	for _, task := range tasks {
		all = slices.Grow(all, len(task.Replicas))
		for i := range task.Replicas {
			all = append(all, &task.Replicas[i])
		}
	}
	byName := sync.OnceValue(func() map[string]*batchv1beta1.ReplicaStatus {
		byName := make(map[string]*batchv1beta1.ReplicaStatus, len(all))
		for _, entry := range all {
			byName[entry.Name] = entry
		}
		return byName
	})
	next := 0
	return func(name string) *batchv1beta1.ReplicaStatus {
		if next < len(all) && all[next].Name == name {
			next++
			return all[next-1]
		}
		return byName()[name]
	}
}

// InAttempt returns the replica in a new attempt. The parameter n is how often the replica was restarted without its
// peers. The parameter due is the earliest time at which the attempt begins. Nil means immediately.
func (r *Replica) InAttempt(n int32, due *metav1.Time) Replica {
	next := *r
	next.Recorded = batchv1beta1.ReplicaStatus{Name: r.Member.Name, Attempt: n, RestartTime: due}
	next.Done, next.gone = false, false
	return next
}

// IsAlive reports whether the status records a pod of the replica that is neither ended nor deleted.
func IsAlive(recorded batchv1beta1.ReplicaStatus) bool {
	return recorded.UID != "" && !HasEnded(recorded.Phase) && recorded.Phase != batchv1beta1.ReplicaPhaseDeleted
}

// HasEnded reports whether a replica in this phase has ended.
func HasEnded(phase batchv1beta1.ReplicaPhase) bool {
	return phase == batchv1beta1.ReplicaPhaseSucceeded || phase == batchv1beta1.ReplicaPhaseFailed
}

// mainContainerOf returns the name of the main container in a template. It is empty if the template has no
// containers. The pod cannot be used instead, because the admission by the API server can insert containers before
// the main one. All pods of the current attempt are built from this template, since it changes only while the job is
// paused and has no pods.
func (v *View) mainContainerOf(template *corev1.PodTemplateSpec) string {
	if main := framework.MainContainer(v.Job.MainContainers, template.Spec.Containers); main != nil {
		return main.Name
	}
	return ""
}
