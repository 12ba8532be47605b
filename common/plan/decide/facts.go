package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Facts are the decision about a job. Package status renders the status that results from them. The zero value leaves
// everything as it is.
type Facts struct {
	Changes

	// Action is what the controller does about the job.
	Action Action
	// Forgets reports whether the status of the job is discarded, because the status comes from a copy of the job in
	// another cluster and the copy is gone.
	Forgets bool

	// Counts are the counts of the job from now on.
	Counts view.Counts
	// StartTime is when the job started. Nil means that it has not started, or not started again.
	StartTime *metav1.Time
	// Running reports whether the job runs: all replicas run or have ended, or enough replicas of an elastic job run.
	Running bool
	// KeepsWaiting reports whether a job that does not run keeps the reason in its status, because its admission is
	// unknown for a short time.
	KeepsWaiting bool
	// Recovered reports whether the job runs again after a failure: every replica runs or has succeeded, or enough
	// replicas of an elastic job run.
	Recovered bool
	// Wait is why missing pods are not created yet. Nil means that they wait for nothing.
	Wait *view.Wait
	// Withdrawn is the reason of a withdrawal of the job's admission, which stops the replicas. Empty means that the
	// admission is not withdrawn.
	Withdrawn string
	// Refusal is why pods cannot be created: a template is invalid, or the job cannot get an admission. Nil means that
	// they can be created.
	Refusal *report.RefusedError
	// Overdue are the pods that should be gone and that the job waits for, in the order of their names.
	Overdue []*corev1.Pod

	// RecordsFailure reports whether the decision records a failure or restarts replicas because of one.
	RecordsFailure bool
	// Failures are the last failures of the job, the latest first.
	Failures []batchv1beta1.ReplicaFailure
	// AvoidedNodes are the nodes that new pods avoid, the oldest first.
	AvoidedNodes []batchv1beta1.AvoidedNode
	// Restarted is the failure that restarts replicas now. If several failures restart one replica each, it is the
	// failure of the last of these replicas. Nil means that no failure restarts replicas.
	Restarted *view.ReplicaFailure
	// Restarts are the restarts of replicas, or of the whole job. If there are any, the status write is never delayed.
	Restarts []Restart
	// RestartCounts maps each type to the number of its replicas that restart now. Nil means that no replica restarts
	// now.
	RestartCounts map[string]int32
	// Happenings are the restarts, failures, evictions and changes of avoided nodes, in order. Package status makes an
	// event of each.
	Happenings []Happening
	// Unclear are the main containers whose full output the controller must read. The status of a container has only the
	// end of its output. The earlier output might show that another failure was the root cause, or it might have the
	// lines that the failed program printed. Unclear is empty unless a failure is recorded.
	Unclear []view.Container

	// End is the condition that records how the job ends. Nil means that the job goes on, or that an earlier version of
	// the controller has ended the job and did not record the condition.
	End *metav1.Condition
	// EndedBy is the failure that ends the job now. Nil means that there is none.
	EndedBy *view.ReplicaFailure
	// Finishes reports whether the job finishes now.
	Finishes bool
	// CleanedUp reports whether nothing is left to clean up, so that the tasks of the status are final.
	CleanedUp bool

	// Stall is a change in the state of a stall of the training: for example, a stall begins or ends.
	Stall Stall
	// Progress is the progress of the training that the status records from now on. Nil means that the recorded progress
	// stays as it is.
	Progress *batchv1beta1.ProgressStatus

	// RestartsInPlace are the restarts in place that the status records from now on. Nil means that the recorded ones stay
	// as they are.
	RestartsInPlace *batchv1beta1.RestartsInPlace
	// AddedInPlace is the number of restarts in place that are recorded now.
	AddedInPlace int32

	// NeedsLiveRead reports whether the controller must decide again on a live read, because a cache can be stale. See
	// needsLiveRead. Package plan adds one case: an event about a wait that might already be over.
	NeedsLiveRead bool
	// RequeueAt is when to reconcile the job again even if nothing happens. Zero means never.
	RequeueAt time.Time
	// Urgent reports whether nodes of the job might be idle until RequeueAt. If so, the job is reconciled before new
	// jobs.
	Urgent bool
}

// Changes are changes of the objects that belong to a job. The controller changes the admission first. Then it
// releases, deletes and creates pods.
type Changes struct {
	// Admission is the change of the PodGroup or Workload. It is made before the changes of the pods, so that resources
	// are released even if deleting a pod fails.
	Admission view.Change
	// Releases are the pods of leaders that lose their finalizer. That happens after the status is written and before
	// any pod is deleted. See release.go.
	Releases []*corev1.Pod
	// Deletes are the pods to delete gracefully.
	Deletes []*corev1.Pod
	// CleanUps are the pods to delete if their resourceVersion is still the observed one. A pod that has ended since
	// might have to stay because of its logs.
	CleanUps []*corev1.Pod
	// ForceDeletes are the pods to delete with grace period 0, because their nodes are lost.
	ForceDeletes []*corev1.Pod
	// Creates are the pods to create.
	Creates []view.Creation
	// Together is the number of pods, counted from the first of Creates, that the job needs before it can train. If a
	// ResourceQuota has rejected a pod of the job, none of these pods is created until the quota has room for all of
	// them. 0 means that each pod is of use without the others.
	Together int
	// CreateService reports whether to create the headless Service of the job.
	CreateService bool
	// EnsureNetworkPolicy reports whether to create or restore the NetworkPolicy of the job before any pod is created.
	EnsureNetworkPolicy bool
	// DeleteJob reports whether to delete the job because its time to live is over. Its pods are deleted with it.
	DeleteJob bool
}

// ChangesObjects reports whether objects other than the job change.
func (c *Changes) ChangesObjects() bool {
	return len(c.Releases) > 0 || len(c.Deletes) > 0 || len(c.CleanUps) > 0 || len(c.ForceDeletes) > 0 ||
		len(c.Creates) > 0 || c.CreateService || c.EnsureNetworkPolicy || c.Admission.Action != ""
}

// Restart is a restart of a replica or of the whole job.
type Restart struct {
	// Cause is the reason of the failure. It is ReasonCompleted if the replica succeeded and its restart policy restarts
	// it.
	Cause string
	// Counted reports whether the restart counts towards backoffLimit.
	Counted bool
	// Node is the name of the node that caused the failure. It is empty if the node is not the cause. It is also empty
	// if no container started on the node: since a user can name any node in a template, such a failure could wrongly
	// blame a node.
	Node string
}

// Happening is something that happens to replicas or nodes of a job: RestartsAll, RestartsOne, StaysFailed, Evicts,
// AvoidsNode or AllowsNode.
type Happening interface{ isHappening() }

// RestartsAll means that a failure restarts all replicas.
type RestartsAll struct{ Cause view.ReplicaFailure }

// RestartsOne means that a failure restarts the failed replica alone.
type RestartsOne struct{ Failure view.ReplicaFailure }

// StaysFailed means that a replica failed and is not restarted.
type StaysFailed struct{ Failure view.ReplicaFailure }

// Evicts means that all replicas are stopped for another reason than a failure or a pause. The field Why has this
// reason.
type Evicts struct{ Why string }

// AvoidsNode means that new pods avoid a node.
type AvoidsNode struct{ Node batchv1beta1.AvoidedNode }

// AllowsNode means that new pods can run again on a node that the job avoided.
type AllowsNode struct{ Name, Why string }

func (RestartsAll) isHappening() {}
func (RestartsOne) isHappening() {}
func (StaysFailed) isHappening() {}
func (Evicts) isHappening()      {}
func (AvoidsNode) isHappening()  {}
func (AllowsNode) isHappening()  {}

// Stall is a change in the state of a stall of the training. The zero value changes nothing.
type Stall struct {
	Change StallChange
	// Replica is the name of the replica that makes no progress, if the training is stalled.
	Replica string
	// Message describes the stall, or why the progress cannot be read.
	Message string
}

// StallChange is the kind of a change in the state of a stall.
type StallChange string

const (
	// StallRestarts means that a stall restarts or ends the job.
	StallRestarts StallChange = "Restarts"
	// StallBegins means that the training is stalled, and that the job goes on nevertheless.
	StallBegins StallChange = "Begins"
	// StallEnds means that the training is within its deadlines again.
	StallEnds StallChange = "Ends"
	// StallStops means that the training does not run anymore, so that a stall or an unknown progress is over.
	StallStops StallChange = "Stops"
	// StallUnknown means that the progress of the training cannot be read.
	StallUnknown StallChange = "Unknown"
	// StallKnown means that the progress can be read again, or that there is no deadline for it anymore.
	StallKnown StallChange = "Known"
)

// Reaction returns how the controller reacts to the change: Restart to StallRestarts, Notify to StallBegins, and
// empty to all other changes.
func (s Stall) Reaction() batchv1beta1.ProgressPolicy {
	switch s.Change {
	case StallRestarts:
		return batchv1beta1.ProgressPolicyRestart
	case StallBegins:
		return batchv1beta1.ProgressPolicyNotify
	default:
		return ""
	}
}
