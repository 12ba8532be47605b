// Package screen draws snapshots of jobs: as a screen of a terminal, or as lines of text. All functions except Show
// are pure. Their results are safe to print, because they contain no control characters from objects in the cluster.
package screen

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Snapshot is the state of a job, and of the objects around it, at one time.
type Snapshot struct {
	// Job is the job. After its deletion, it is the last known state.
	Job jobs.Job
	// Pods are the pods of the job, by name. Nil means that the user may not read them.
	Pods map[string]Pod
	// Events are the events of the job, newest first.
	Events []Event
	// Queue is the queue of the job. Nil means that the job has no queue, or that its queue is not known yet.
	Queue *Queue
	// TensorBoard is the URL of the TensorBoard of the job. Empty means that there is none.
	TensorBoard string
	// Missing names the parts of the snapshot that the user may not read.
	Missing []string
	// Trouble is why the cluster cannot be read at present. Empty means that the cluster can be read.
	Trouble string
	// Deleted reports whether the job was deleted.
	Deleted bool
}

// Pod is the part of a pod that a screen shows.
type Pod struct {
	// Node is the node that the pod is bound to. Empty means none yet.
	Node string
	// Reason is why the pod does not run, in one word. Empty means that it runs, or that there is no special reason.
	Reason string
	// Accepted is when the kubelet accepted the pod. Nil means not yet.
	Accepted *metav1.Time
	// Ending reports whether the pod is being deleted.
	Ending bool
}

// Event is an event of a job.
type Event struct {
	// Name is the name of the Event itself, and not of the object that the event is about.
	Name string
	// Type is Normal or Warning.
	Type string
	// Reason is why the event occurred, in one word.
	Reason string
	// Message describes the event.
	Message string
	// Time is when the event occurred last.
	Time time.Time
}

// Queue is the queue that a job waits in, or that has admitted it.
type Queue struct {
	// Name is the name of the Queue, or of the LocalQueue of Kueue.
	Name string
	// Admitted reports whether the job is admitted. If so, it has no place in the queue.
	Admitted bool
	// Place is the position of the job among the waiting jobs, from 1. 0 means that the position is not known.
	Place int
	// Waiting is the number of waiting jobs. 0 means that the number is not known.
	Waiting int
	// Within names a part of the queue. Place and Waiting count only the jobs in this part. Empty means that they count
	// all jobs of the queue.
	Within string
	// Usage describes how much of the quota is used. Empty means that the usage is not known.
	Usage string
}

// status returns the status of the job.
func (s Snapshot) status() *batchv1beta1.JobStatus { return s.Job.JobStatus() }

// condition returns a condition of the job, or an empty condition if the job does not have it.
func (s Snapshot) condition(conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(s.status().Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// isRunning reports whether the condition Running of the job is True.
func (s Snapshot) isRunning() bool {
	return s.condition(batchv1beta1.ConditionRunning).Status == metav1.ConditionTrue
}

// isStalled reports whether the training of the job is stalled.
func (s Snapshot) isStalled() bool {
	return s.condition(batchv1beta1.ConditionStalled).Status == metav1.ConditionTrue
}

// isSucceeding reports whether the job has succeeded, or will succeed when its pods have ended.
func (s Snapshot) isSucceeding() bool { return jobs.Succeeded(*s.status()) }

// message returns the message that explains the phase of the job, without the output of a replica that failed.
func (s Snapshot) message() string { return jobs.WithoutOutput(s.Job.Message()) }

// replica is a replica of a job as a screen shows it.
type replica struct {
	// Type is the type of the replica, such as worker.
	Type string
	// Name is the name of the replica without the name of the job, such as worker-0.
	Name string
	// Phase is the phase in the status of the job.
	Phase batchv1beta1.ReplicaPhase
	// Node is the node of the replica. Empty means none.
	Node string
	// Restarts is how often the pod of the replica was replaced.
	Restarts int32
	// Detail explains the phase. Empty means that there is nothing to explain.
	Detail string
	// Ending reports whether the pod is being deleted.
	Ending bool
}

// replicas returns the replicas of the job, in the order of the status, so replicas of a type are next to each other.
// It returns nil for a paused job if all replicas are Creating, because such a job has not had any pods yet.
func (s Snapshot) replicas() []replica {
	status := s.status()
	var all []replica
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			pod := s.Pods[r.Name]
			all = append(all, replica{
				Type:     task.Type,
				Name:     s.Job.ShortName(r.Name),
				Phase:    r.Phase,
				Node:     cmp.Or(r.Node, pod.Node),
				Restarts: status.Attempt + r.Attempt,
				Detail:   s.detailOf(r, pod),
				Ending:   pod.Ending,
			})
		}
	}
	if status.Phase == batchv1beta1.JobPhasePaused && count(all)[batchv1beta1.ReplicaPhaseCreating] == len(all) {
		return nil
	}
	return all
}

// waitsForCode reports whether the job is paused because kubectl train run has not uploaded its code yet.
func (s Snapshot) waitsForCode() bool {
	return s.status().Phase == batchv1beta1.JobPhasePaused && s.Job.LacksCode()
}

// detailOf explains the phase of a replica: what its pod waits for, or how it ended.
func (s Snapshot) detailOf(r batchv1beta1.ReplicaStatus, pod Pod) string {
	main := s.mainContainer(r)
	switch {
	case pod.Ending:
		return "its pod is being deleted"
	case r.RestartTime != nil && r.UID == "":
		return "restarts at " + r.RestartTime.UTC().Format("15:04:05 MST")
	case r.Phase == batchv1beta1.ReplicaPhaseFailed && main.ExitCode != nil:
		return exitOf(*main.ExitCode, main.Reason)
	case r.Phase == batchv1beta1.ReplicaPhaseFailed:
		return pod.Reason
	case r.Phase == batchv1beta1.ReplicaPhasePending:
		return cmp.Or(pod.Reason, main.Reason)
	default:
		return ""
	}
}

// mainContainer returns the status of the main container of a replica. If no container has the name of a main
// container, it returns the status of the first container. If there is no container, the result is empty.
func (s Snapshot) mainContainer(r batchv1beta1.ReplicaStatus) batchv1beta1.ContainerStatus {
	for _, name := range s.Job.Kind.MainContainers {
		for _, c := range r.Containers {
			if c.Name == name {
				return c
			}
		}
	}
	if len(r.Containers) > 0 {
		return r.Containers[0]
	}
	return batchv1beta1.ContainerStatus{}
}

// count returns how many replicas have each phase.
func count(replicas []replica) map[batchv1beta1.ReplicaPhase]int {
	phases := map[batchv1beta1.ReplicaPhase]int{}
	for _, r := range replicas {
		phases[r.Phase]++
	}
	return phases
}

// nodesOf returns the number of nodes on which replicas hold resources.
func nodesOf(replicas []replica) int {
	nodes := map[string]bool{}
	for _, r := range replicas {
		if holds(r) {
			nodes[r.Node] = true
		}
	}
	return len(nodes)
}

// holds reports whether a replica holds the resources of its node.
func holds(r replica) bool {
	return r.Node != "" && (r.Phase == batchv1beta1.ReplicaPhasePending || r.Phase == batchv1beta1.ReplicaPhaseRunning)
}

// failures returns the failures of the job that its earlier status does not have, oldest first. If the earlier status
// is nil, it returns all failures.
func (s Snapshot) failures(before *batchv1beta1.JobStatus) []batchv1beta1.ReplicaFailure {
	var added []batchv1beta1.ReplicaFailure
	for _, f := range s.status().Failures {
		isKnown := func(k batchv1beta1.ReplicaFailure) bool { return k.Replica == f.Replica && k.Time.Equal(&f.Time) }
		if before == nil || !slices.ContainsFunc(before.Failures, isKnown) {
			added = append(added, f)
		}
	}
	slices.Reverse(added)
	return added
}
