package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// replica is one member of the gang with what is recorded and what is seen of it.
type replica struct {
	member *framework.Member
	// recorded is the replica's entry of the status. Accounting changes it.
	recorded batchv1beta1.ReplicaStatus
	// pod of the replica, nil if there is none.
	pod *corev1.Pod
	// podAttempt is the attempt that the pod carries.
	podAttempt string
	// outdated says that the pod is older than what is recorded of it, since no pod goes back from running to pending.
	outdated bool
	// gone says that the pod was alive and no longer exists.
	gone bool
	// spec of the job.
	spec *framework.JobSpec
	// met says that the replica ran with all others in this attempt, so that they may depend on each other.
	met bool
	// jobAttempt is the attempt of the whole job.
	jobAttempt int32
	outcome    policy.Outcome
	// restarts is how often the replica was restarted just now.
	restarts int32
	// done says that the replica is recorded as ended in this attempt: it succeeded, or failed and is not restarted. It
	// stays so, whatever becomes of its pod.
	done bool
}

// attempt numbers the pods of a replica: by how often those of all replicas were replaced together, and since then by how often
// its own was. A pod of another attempt than the current one has been accounted for, whatever became of it.
type attempt struct{ job, replica int32 }

// String returns the attempt as the label of a pod has it: "2", or "2.1" if the replica was restarted by itself.
func (a attempt) String() string {
	if a.replica == 0 {
		return strconv.Itoa(int(a.job))
	}
	return fmt.Sprintf("%d.%d", a.job, a.replica)
}

// ofAttempt says that a pod belongs to an attempt of the whole job.
func ofAttempt(pod *corev1.Pod, all int32) bool {
	of, _, _ := strings.Cut(pod.Labels[batchv1beta1.LabelAttempt], ".")
	return of == strconv.Itoa(int(all))
}

// attempt returns the attempt that a pod of the replica must carry to count.
func (r *replica) attempt() attempt { return attempt{job: r.jobAttempt, replica: r.recorded.Attempt} }

// obsolete says that the pod belongs to another attempt than the current one, and only stands in its way.
func (r *replica) obsolete() bool {
	return r.pod != nil && r.podAttempt != r.attempt().String()
}

// failure returns why the replica failed in its current attempt, or nil. A pod that is being deleted failed if Kubernetes
// disrupted it; if somebody deleted it, what it does until it is gone means nothing. A failure that was seen stays one when
// its pod goes before it is accounted for.
func (r *replica) failure() *policy.Failure {
	switch {
	case r.pod == nil && r.staysFailed() && r.takesAll(*recordedFailure(r.recorded)):
		return recordedFailure(r.recorded)
	case r.outcome.Failure == nil && r.outcome.Disruption == "" || r.obsolete():
		return nil
	case !r.outcome.Terminating || r.done:
		return r.outcome.Failure
	case r.outcome.Disruption != "":
		return lossOf(r.pod, r.outcome.Disruption)
	default:
		return nil
	}
}

// deletion returns the failure that it is for the replica that somebody is deleting, or has deleted, the pod of its current
// attempt; nil if nobody has. Such a replica is restarted whatever its policy says of failures, since it has not failed.
// Before all replicas ran it is no failure: nobody depends on the pod, which is simply created again.
func (r *replica) deletion() *policy.Failure {
	switch {
	case !r.met:
		return nil
	case r.gone:
		return &policy.Failure{Reason: batchv1beta1.ReasonDeleted, Free: true}
	case r.outcome.Terminating && r.outcome.Disruption == "" && !r.done && !r.obsolete():
		return lossOf(r.pod, batchv1beta1.ReasonDeleted)
	default:
		return nil
	}
}

// recordedFailure returns what is recorded of the failure of a replica whose pod is gone.
func recordedFailure(recorded batchv1beta1.ReplicaStatus) *policy.Failure {
	failure := &policy.Failure{Reason: batchv1beta1.ReasonError}
	for _, c := range recorded.Containers {
		if c.ExitCode != nil && *c.ExitCode != 0 {
			failure.ExitCode, failure.Reason = c.ExitCode, cmp.Or(c.Reason, failure.Reason)
			break
		}
	}
	return failure
}

// lossOf describes the end of a pod that is being deleted by others than us.
func lossOf(pod *corev1.Pod, reason string) *policy.Failure {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return &policy.Failure{Reason: reason, Time: pod.DeletionTimestamp.Add(-grace), Free: true}
}

// succeeded says that the replica succeeded in its current attempt. A pod that ends while it is being deleted did not
// finish its work.
func (r *replica) succeeded() bool {
	if r.done {
		return r.recorded.Phase == batchv1beta1.ReplicaPhaseSucceeded
	}
	return r.pod != nil && !r.obsolete() && !r.outcome.Terminating && r.outcome.Phase == batchv1beta1.ReplicaPhaseSucceeded
}

// works says that the replica runs or has done its part.
func (r *replica) works() bool {
	return r.succeeded() || r.mayFail() && !r.outcome.Terminating
}

// mayFail says that the replica runs, so that its failure may be yet to be reported.
func (r *replica) mayFail() bool {
	return r.outcome.Phase == batchv1beta1.ReplicaPhaseRunning && !r.obsolete()
}

// takesAll says that a failure of the replica restarts all, if it restarts any. The replica then does not stay failed.
func (r *replica) takesAll(failure policy.Failure) bool {
	scope := policy.FailureScope(*r.spec, r.member.Role.RestartPolicy, r.member.Rank == 0, failure)
	return scope == batchv1beta1.RestartScopeJob
}

// staysFailed says that the replica failed and is not restarted.
func (r *replica) staysFailed() bool {
	return r.done && r.recorded.Phase == batchv1beta1.ReplicaPhaseFailed
}

func (p *planner) observeReplicas() []*replica {
	recorded := recordedReplicas(p.job.Status.Tasks)
	wasRunning := isRunning(p.job.Status)
	all := make([]replica, len(p.gang.Members)) // one allocation
	replicas := make([]*replica, 0, len(all))
	for i := range p.gang.Members {
		r, member := &all[i], &p.gang.Members[i]
		*r = replica{
			member:     member,
			recorded:   ptr.Deref(recorded(member.Name), batchv1beta1.ReplicaStatus{}),
			pod:        p.seen.Pods[member.Name],
			jobAttempt: p.gang.Attempt,
			met:        wasRunning,
			spec:       &p.job.Spec,
		}
		r.recorded.Name = member.Name
		if p.job.Spec.Elastic != nil {
			r.met = r.met && r.recorded.Phase == batchv1beta1.ReplicaPhaseRunning // the job runs without those that do not
		}
		if r.pod != nil {
			r.podAttempt = r.pod.Labels[batchv1beta1.LabelAttempt]
		}
		r.gone = r.pod == nil && isAlive(r.recorded)
		r.outcome = policy.Judge(r.pod, mainContainerName(p.job.MainContainers, r.pod))
		if r.pod != nil && r.recorded.UID != r.pod.UID && p.mayBePast(r) {
			p.decision.Irrevocable = true
		}
		r.outdated = r.pod != nil && r.pod.UID == r.recorded.UID &&
			r.recorded.Phase == batchv1beta1.ReplicaPhaseRunning && r.outcome.Phase == batchv1beta1.ReplicaPhasePending
		if r.outdated {
			r.outcome.Phase = r.recorded.Phase
		}
		r.done = hasEnded(r.recorded.Phase)
		replicas = append(replicas, r)
	}
	return replicas
}

// recordedReplicas returns a function that returns the entry of a replica of the given name, nil if there is none. It needs no map as long
// as names are asked for in the order of the status, as most often they are.
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

// mayBePast says that the pod, which is not the one that is recorded, may be one of the past, since the cache may be older than
// the status. A job that runs has the pods that are recorded. A replica of an elastic job may have been given up since, and
// come back.
func (p *planner) mayBePast(r *replica) bool {
	return isRunning(p.job.Status) && isAlive(r.recorded) ||
		p.job.Spec.Elastic != nil && r.outcome.Phase != batchv1beta1.ReplicaPhasePending
}

// isRunning says that every replica runs or has done its part.
func isRunning(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionRunning)
}

// isAlive says that a pod of the replica is recorded and not its end.
func isAlive(recorded batchv1beta1.ReplicaStatus) bool {
	return recorded.UID != "" && !hasEnded(recorded.Phase) && recorded.Phase != batchv1beta1.ReplicaPhaseDeleted
}

func hasEnded(phase batchv1beta1.ReplicaPhase) bool {
	return phase == batchv1beta1.ReplicaPhaseSucceeded || phase == batchv1beta1.ReplicaPhaseFailed
}

// restart begins an attempt of the replica, which is due at the given time: its n-th since all replicas were replaced.
func (r *replica) restart(n int32, due *metav1.Time) {
	r.recorded = batchv1beta1.ReplicaStatus{Name: r.member.Name, Attempt: n, RestartTime: due}
	r.done = false
	r.gone = false
	r.restarts++
}

// mainContainerName returns which container of a pod is the main one, which has the first of the names that any has.
func mainContainerName(names []string, pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	if main := framework.MainContainer(names, pod.Spec.Containers); main != nil {
		return main.Name
	}
	return ""
}

// setTasks writes what is seen of the replicas into the status, and tells the user if there are more or fewer of them. A plan
// calls it once.
func (p *planner) setTasks() {
	p.announceScale()
	status := &p.decision.Status
	restarts := map[string]int32{}
	for _, task := range p.job.Status.Tasks {
		restarts[task.Type] = task.RestartCount
	}
	status.Tasks = make([]batchv1beta1.TaskStatus, 0, len(p.job.Spec.Roles))
	status.Aggregate = &batchv1beta1.Aggregate{}
	status.Replicas = 0
	ready := 0
	for _, role := range p.job.Spec.Roles {
		task := batchv1beta1.TaskStatus{Type: role.Type, RestartCount: restarts[role.Type]}
		task.Replicas = slices.Grow(task.Replicas, int(role.Replicas))
		for _, r := range p.replicas {
			if r.member.Role.Type != role.Type {
				continue
			}
			entry := r.status()
			switch {
			case status.Finished():
				entry = r.finalStatus(p.job.Spec.RunPolicy)
			case status.StartTime == nil && status.Pauses > 0:
				entry.Phase = batchv1beta1.ReplicaPhaseDeleted
			}
			task.Replicas = append(task.Replicas, entry)
			task.RestartCount += r.restarts
			count(status.Aggregate, entry.Phase)
			if r.pod != nil {
				status.Replicas++
			}
			if r.outcome.Ready && !r.obsolete() {
				ready++
			}
		}
		status.Tasks = append(status.Tasks, task)
	}
	status.Ready = fmt.Sprintf("%d/%d", ready, len(p.replicas))
}

// status returns the replica's entry of the status as the pod shows it.
func (r *replica) status() batchv1beta1.ReplicaStatus {
	entry := batchv1beta1.ReplicaStatus{
		Name:        r.member.Name,
		Phase:       batchv1beta1.ReplicaPhaseCreating,
		Attempt:     r.recorded.Attempt,
		RestartTime: r.recorded.RestartTime,
	}
	if r.done || r.outdated {
		return r.recorded
	}
	if r.pod == nil || r.obsolete() {
		return entry
	}
	entry.UID = r.pod.UID
	entry.Phase = r.outcome.Phase
	switch {
	case r.outcome.Terminating && r.failure() != nil:
		entry.Phase = batchv1beta1.ReplicaPhaseFailed
	case r.outcome.Terminating && (hasEnded(entry.Phase) || r.spec.Elastic != nil):
		// The end of a pod that somebody deleted does not count. An elastic job goes on without it, as if it had not run yet.
		entry.Phase = batchv1beta1.ReplicaPhaseCreating
	}
	entry.Node = r.pod.Spec.NodeName
	entry.RestartTime = nil
	for _, c := range r.pod.Status.ContainerStatuses {
		entry.Containers = append(entry.Containers, containerStatus(c))
	}
	return entry
}

// finalStatus returns the entry of a replica of a finished job. It keeps how the replica ended; only what the clean-up
// took, or would have taken, becomes Deleted.
func (r *replica) finalStatus(run batchv1beta1.RunPolicy) batchv1beta1.ReplicaStatus {
	if r.pod != nil && !r.obsolete() {
		return r.status()
	}
	entry := r.recorded
	entry.RestartTime = nil
	if !hasEnded(entry.Phase) || run.CleanUpPolicy == batchv1beta1.CleanUpPolicyAll {
		entry.Phase = batchv1beta1.ReplicaPhaseDeleted
	}
	return entry
}

func containerStatus(c corev1.ContainerStatus) batchv1beta1.ContainerStatus {
	switch {
	case c.State.Terminated != nil:
		return batchv1beta1.ContainerStatus{
			Name: c.Name, State: batchv1beta1.ContainerTerminated,
			ExitCode: new(c.State.Terminated.ExitCode), Reason: c.State.Terminated.Reason,
		}
	case c.State.Running != nil:
		return batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerRunning}
	case c.State.Waiting != nil:
		return batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerWaiting, Reason: c.State.Waiting.Reason}
	default:
		return batchv1beta1.ContainerStatus{Name: c.Name, State: batchv1beta1.ContainerWaiting}
	}
}

func count(aggregate *batchv1beta1.Aggregate, phase batchv1beta1.ReplicaPhase) {
	switch phase {
	case batchv1beta1.ReplicaPhaseCreating:
		aggregate.Creating++
	case batchv1beta1.ReplicaPhasePending:
		aggregate.Pending++
	case batchv1beta1.ReplicaPhaseRunning:
		aggregate.Running++
	case batchv1beta1.ReplicaPhaseSucceeded:
		aggregate.Succeeded++
	case batchv1beta1.ReplicaPhaseFailed:
		aggregate.Failed++
	case batchv1beta1.ReplicaPhaseDeleted:
		aggregate.Deleted++
	default:
		aggregate.Unknown++
	}
}
