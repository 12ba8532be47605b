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
	// Forgets reports whether the status of the job is discarded, because another cluster has written it about a run
	// that is gone.
	Forgets bool

	// Counts are the counts of the job from now on.
	Counts view.Counts
	// StartTime is when the job started. Nil means that it has not started, or not started again.
	StartTime *metav1.Time
	// Running reports whether the job runs: all replicas run or have ended, or enough replicas of an elastic job run.
	Running bool
	// KeepsWaiting reports whether a job that does not run goes on waiting for the reason that its status has, because
	// its admission will be known soon.
	KeepsWaiting bool
	// Recovered reports whether every replica runs again after a failure, or enough replicas of an elastic job.
	Recovered bool
	// Wait is why missing pods are not created yet. Nil means that they wait for nothing.
	Wait *view.Wait
	// Withdrawn is why the admission of the job is withdrawn, so that its replicas stop. Empty means that it is not.
	Withdrawn string
	// Refusal is why pods cannot be created: a template is invalid, or the job cannot get an admission. Nil means that
	// they can be created.
	Refusal *report.RefusedError
	// Overdue are the pods that should be gone, by name. The job waits for them.
	Overdue []*corev1.Pod

	// RecordsFailure reports whether a failure is recorded, or restarts replicas.
	RecordsFailure bool
	// Failures are the last failures of the job, the latest first.
	Failures []batchv1beta1.ReplicaFailure
	// AvoidedNodes are the nodes that new pods avoid, the oldest first.
	AvoidedNodes []batchv1beta1.AvoidedNode
	// Restarted is the last failure that restarts replicas. Nil means that none does.
	Restarted *view.ReplicaFailure
	// Restarts are the restarts of replicas, or of the whole job.
	Restarts []Restart
	// RestartCounts counts the restarts of replicas by their type. Nil means that no replica restarts now.
	RestartCounts map[string]int32
	// Happenings are the events of replicas and nodes, in order.
	Happenings []Happening
	// Unclear are the main containers whose full output can show that another failure was the root cause, or what the
	// program printed. The end of the output, which is in their status, does not show that. Unclear is empty unless a
	// failure is recorded.
	Unclear []view.Container

	// End is the condition that records how the job ends. It is nil if the job goes on, or if the status of an earlier
	// version does not record it.
	End *metav1.Condition
	// EndedBy is the failure that ends the job now. Nil means that there is none.
	EndedBy *view.ReplicaFailure
	// Finishes reports whether the end of the job becomes final.
	Finishes bool
	// CleanedUp reports whether nothing is left to clean up, so that the tasks of the status are final.
	CleanedUp bool

	// Stall is a change of what is known about a stall of the training.
	Stall Stall
	// Progress is the progress of the training that is recorded. Nil means that it stays as it is.
	Progress *batchv1beta1.ProgressStatus

	// NeedsLiveRead reports whether the controller must decide again on a live read, because a cache can be older than
	// the status. See needsLiveRead. Package plan adds one case, which depends on an event.
	NeedsLiveRead bool
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
	// Urgent reports whether nodes of the job might be idle until WakeAt. Then the job is reconciled before new jobs.
	Urgent bool
}

// Changes are changes of the objects that belong to a job. The controller changes the admission first. Then it
// releases, deletes and creates pods.
type Changes struct {
	// Admission is changed before the pods, so that the resources that it holds are released even if deleting a pod
	// fails.
	Admission view.Change
	// Releases are the pods of leaders that lose their finalizer. That happens after the status is written and before
	// any pod is deleted. See release.go.
	Releases []*corev1.Pod
	// Deletes are the pods to delete gracefully.
	Deletes []*corev1.Pod
	// CleanUps are the pods to delete with their observed resourceVersion as a precondition. A pod that has ended since
	// might have to stay because of its logs.
	CleanUps []*corev1.Pod
	// ForceDeletes are the pods to delete with grace period 0, because their nodes are lost.
	ForceDeletes []*corev1.Pod
	// Creates are the pods to create.
	Creates []view.Creation
	// Together is how many of the first Creates the job needs before it can train. If a ResourceQuota has rejected a
	// pod of the job, none of them is created until the quota has room for all of them. 0 means that each pod is of
	// use.
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
	// Cause is the reason of the failure, or ReasonCompleted.
	Cause string
	// Counted reports whether the restart counts towards backoffLimit.
	Counted bool
	// Node is the name of the node that caused the failure. It is empty if the node is not the cause, or if no
	// container started on it: the template of a job can name any node.
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

// Evicts means that all replicas are stopped for the given reason, and not because of a failure or a pause.
type Evicts struct{ Why string }

// AvoidsNode means that new pods avoid a node.
type AvoidsNode struct{ Node batchv1beta1.AvoidedNode }

// AllowsNode means that new pods can run on a node again that they avoided.
type AllowsNode struct{ Name, Why string }

func (RestartsAll) isHappening() {}
func (RestartsOne) isHappening() {}
func (StaysFailed) isHappening() {}
func (Evicts) isHappening()      {}
func (AvoidsNode) isHappening()  {}
func (AllowsNode) isHappening()  {}

// Stall is a change of what is known about a stall of the training. The zero value changes nothing.
type Stall struct {
	Change StallChange
	// Replica is the name of the replica that makes no progress, if the training is stalled.
	Replica string
	// Message describes the stall, or why the progress cannot be read.
	Message string
}

// StallChange is what becomes known about a stall of the training.
type StallChange string

const (
	// StallRestarts means that a stall restarts or ends the job.
	StallRestarts StallChange = "Restarts"
	// StallBegins means that the training is stalled, and that the job goes on nevertheless.
	StallBegins StallChange = "Begins"
	// StallEnds means that the training is within its deadlines again.
	StallEnds StallChange = "Ends"
	// StallStops means that the training does not run anymore.
	StallStops StallChange = "Stops"
	// StallUnknown means that the progress of the training cannot be read.
	StallUnknown StallChange = "Unknown"
	// StallKnown means that the progress can be read again.
	StallKnown StallChange = "Known"
)

// Reaction returns how the controller reacts to a stall that begins. It is empty if none begins.
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
