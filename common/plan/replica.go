package plan

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

// replica is one member of the gang, with its recorded state and its observed state.
type replica struct {
	member *framework.Member
	// recorded is the replica's entry in the status.
	recorded batchv1beta1.ReplicaStatus
	// pod of the replica. Nil means none.
	pod *corev1.Pod
	// podAttempt is the attempt in the label of the pod.
	podAttempt string
	// jobAttempt is the current attempt of the whole job.
	jobAttempt int32
	// mainContainer is the name of the container of the pod whose exit is the replica's.
	mainContainer string
	// devices are the unhealthy devices of the pod. A replica whose end is already accounted for has none.
	devices []batchv1beta1.UnhealthyDevice
	// outcome is the state of the pod.
	outcome policy.Outcome
	// outdated reports whether the cache has an older state of the pod than the status: the pod is pending, but the
	// status records it as running.
	outdated bool
	// gone reports whether the status records a live pod that no longer exists.
	gone bool
	// ranWithAll reports whether the replica ran together with all others in this attempt. Then they can depend on each
	// other.
	ranWithAll bool
	// done reports whether the status records the end of the replica in this attempt: it succeeded, or it failed and is
	// not restarted. It stays true whatever happens to the pod.
	done bool
	// spec of the job.
	spec *framework.JobSpec
	// peers are all replicas of the job, this one included.
	peers []*replica
}

// attempt returns the current attempt of the replica. Pods of other attempts are obsolete.
func (r *replica) attempt() attempt { return attempt{job: r.jobAttempt, replica: r.recorded.Attempt} }

// obsolete reports whether the pod belongs to another attempt than the current one. Such a pod has been accounted for,
// so it is deleted.
func (r *replica) obsolete() bool {
	return r.pod != nil && r.podAttempt != r.attempt().String()
}

// isReplaced reports whether the replica gets a new pod when its present pod is gone.
func (r *replica) isReplaced() bool {
	return r.obsolete() || r.outcome.Terminating && r.failure() == nil
}

// isCurrent reports whether the replica has a pod of the current attempt.
func (r *replica) isCurrent() bool { return r.pod != nil && !r.obsolete() }

// failure returns the failure of the replica in its current attempt, or nil. A pod that is being deleted has failed if
// Kubernetes disrupted it. If somebody else deleted it, its exit is ignored. A recorded failure that restarts all
// replicas counts even if its pod is gone before the failure is counted.
func (r *replica) failure() *policy.Failure {
	switch {
	case r.pod == nil && r.isUnjudged():
		return r.recordedFailure()
	case r.obsolete():
		return nil
	case r.losesDevice():
		failure := policy.DeviceFailure(r.devices)
		return &failure
	case !r.outcome.Terminating || r.done:
		return r.outcome.Failure
	case r.outcome.Disruption != "":
		return failureOfDeleted(r.pod, r.outcome.Disruption)
	default:
		return nil
	}
}

// losesDevice reports whether the replica fails because of an unhealthy device, although its main container has not
// ended. A replica that its restart policy would not restart goes on, since it might end well. So does a replica in
// debug mode, where a user works.
func (r *replica) losesDevice() bool {
	if len(r.devices) == 0 || r.outcome.Terminating || r.spec.RunMode.Debugging() {
		return false
	}
	hasEnded := r.outcome.Phase != batchv1beta1.ReplicaPhaseRunning && r.outcome.Phase != batchv1beta1.ReplicaPhasePending
	failure := policy.DeviceFailure(r.devices)
	return !hasEnded && policy.Restarts(r.member.Role.RestartPolicy, &failure)
}

// deletion returns the failure of a replica whose pod somebody is deleting or has deleted, or nil. Such a replica is
// restarted whatever its restart policy is, because its program has not failed. Before all replicas have run, a
// deletion is not a failure: no peer depends on the pod yet, and the pod is created again.
func (r *replica) deletion() *policy.Failure {
	switch {
	case !r.ranWithAll:
		return nil
	case r.gone:
		return &policy.Failure{Reason: batchv1beta1.ReasonDeleted, Ignored: true}
	case r.outcome.Terminating && r.outcome.Disruption == "" && !r.done && !r.obsolete():
		return failureOfDeleted(r.pod, batchv1beta1.ReasonDeleted)
	default:
		return nil
	}
}

// recordedFailure returns the failure that the status records for a replica whose pod is gone.
func (r *replica) recordedFailure() *policy.Failure {
	failure := &policy.Failure{Reason: batchv1beta1.ReasonError}
	for _, c := range r.recorded.Containers {
		if c.Name == r.mainContainer && c.ExitCode != nil && *c.ExitCode != 0 {
			failure.ExitCode, failure.Reason = c.ExitCode, cmp.Or(c.Reason, failure.Reason)
		}
	}
	return failure
}

// failureOfDeleted returns the failure of a replica whose pod is being deleted, but not by the controller.
func failureOfDeleted(pod *corev1.Pod, reason string) *policy.Failure {
	return &policy.Failure{Reason: reason, Time: policy.DeletedAt(pod), Ignored: true}
}

// succeeded reports whether the replica succeeded in its current attempt. A pod that exits while it is being deleted
// has not finished its work, unless its main container ended before the deletion.
func (r *replica) succeeded() bool {
	if r.done {
		return r.recorded.Phase == batchv1beta1.ReplicaPhaseSucceeded
	}
	return !r.obsolete() && !r.outcome.Terminating && r.outcome.Phase == batchv1beta1.ReplicaPhaseSucceeded
}

// runs reports whether the replica runs, as far as its kubelet has reported.
func (r *replica) runs() bool {
	return r.outcome.Phase == batchv1beta1.ReplicaPhaseRunning && !r.obsolete()
}

// works reports whether the replica runs and is not being deleted, or has succeeded.
func (r *replica) works() bool {
	return r.succeeded() || r.runs() && !r.outcome.Terminating
}

// restartsAll reports whether a failure of the replica restarts the whole job and not only the replica, if it restarts
// anything.
func (r *replica) restartsAll(failure policy.Failure) bool {
	scope := policy.FailureScope(*r.spec, r.member.Role.RestartPolicy, r.member.Rank == 0, failure)
	return scope == batchv1beta1.RestartScopeJob
}

// staysFailed reports whether the replica failed and is not restarted.
func (r *replica) staysFailed() bool {
	return r.recorded.Phase == batchv1beta1.ReplicaPhaseFailed
}

// isUnjudged reports whether the status records a failure of the replica that restarts all replicas or ends the job,
// but its root cause has not been determined yet.
func (r *replica) isUnjudged() bool { return r.staysFailed() && r.restartsAll(*r.recordedFailure()) }

// hasDonePart reports whether the replica has ended and is not restarted. A restart would have begun a new attempt.
func (r *replica) hasDonePart() bool { return r.done || r.succeeded() || r.failure() != nil }

// observeReplicas returns the replicas of the gang, in the order of its members.
func (v *view) observeReplicas() []*replica {
	recorded := recordedReplicas(v.job.Status.Tasks)
	wasRunning := isRunning(v.job.Status)
	all := make([]replica, len(v.gang.Members)) // one allocation
	replicas := make([]*replica, 0, len(all))
	for i := range v.gang.Members {
		r, member := &all[i], &v.gang.Members[i]
		*r = replica{
			member:     member,
			recorded:   ptr.Deref(recorded(member.Name), batchv1beta1.ReplicaStatus{}),
			pod:        v.seen.Pods[member.Name],
			jobAttempt: v.gang.Attempt,
			ranWithAll: wasRunning,
			spec:       &v.job.Spec,
		}
		r.recorded.Name = member.Name
		if v.job.Spec.Elastic != nil {
			// An elastic job can run although some of its replicas do not.
			r.ranWithAll = r.ranWithAll && r.recorded.Phase == batchv1beta1.ReplicaPhaseRunning
		}
		if r.pod != nil {
			r.podAttempt = r.pod.Labels[batchv1beta1.LabelAttempt]
		}
		r.gone = r.pod == nil && isAlive(r.recorded)
		r.mainContainer = v.mainContainerOf(member.Role.Template)
		r.done = hasEnded(r.recorded.Phase)
		if !r.done || r.isUnjudged() {
			r.devices = policy.UnhealthyDevices(r.pod, r.mainContainer)
		}
		r.outcome = policy.Judge(r.pod, r.mainContainer, r.devices)
		r.outdated = r.pod != nil && r.pod.UID == r.recorded.UID &&
			r.recorded.Phase == batchv1beta1.ReplicaPhaseRunning && r.outcome.Phase == batchv1beta1.ReplicaPhasePending
		if r.outdated {
			r.outcome.Phase = r.recorded.Phase
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

// inAttempt returns the replica in its own n-th attempt. The attempt begins no earlier than due. Nil means immediately.
func (r *replica) inAttempt(n int32, due *metav1.Time) replica {
	next := *r
	next.recorded = batchv1beta1.ReplicaStatus{Name: r.member.Name, Attempt: n, RestartTime: due}
	next.done, next.gone = false, false
	return next
}

// isAlive reports whether the status records a pod of the replica that is neither ended nor deleted.
func isAlive(recorded batchv1beta1.ReplicaStatus) bool {
	return recorded.UID != "" && !hasEnded(recorded.Phase) && recorded.Phase != batchv1beta1.ReplicaPhaseDeleted
}

// hasEnded reports whether a replica of the phase has ended.
func hasEnded(phase batchv1beta1.ReplicaPhase) bool {
	return phase == batchv1beta1.ReplicaPhaseSucceeded || phase == batchv1beta1.ReplicaPhaseFailed
}

// mainContainerOf returns the name of the main container in a template. It is empty if the template has no containers.
// The pod cannot be used instead, because admission can insert containers before the main one. All pods of the current
// attempt are built from this template, since it changes only while the job is paused and has no pods.
func (v *view) mainContainerOf(template *corev1.PodTemplateSpec) string {
	if main := framework.MainContainer(v.job.MainContainers, template.Spec.Containers); main != nil {
		return main.Name
	}
	return ""
}
