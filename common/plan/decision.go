package plan

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// Decision describes what to do about a job. The controller first writes Status if it differs and the write is due.
// Then it changes the admission. Finally it releases, deletes and creates pods. In this order a failure is counted
// before the pod that shows the failure is deleted. So a crash in between loses no failure and counts none twice.
type Decision struct {
	// Status is the new status of the job.
	Status batchv1beta1.JobStatus
	// Admission is changed before the pods, so that the resources that it holds are released even if deleting a pod fails.
	Admission Change
	// Releases are the pods of leaders that lose their finalizer. That happens after Status is written and before any pod
	// is deleted. See release.go.
	Releases []*corev1.Pod
	// Deletes are the pods to delete gracefully.
	Deletes []*corev1.Pod
	// CleanUps are the pods to delete with their observed resourceVersion as a precondition. A pod that has ended since
	// might have to stay because of its logs.
	CleanUps []*corev1.Pod
	// ForceDeletes are the pods to delete with grace period 0, because their nodes are lost.
	ForceDeletes []*corev1.Pod
	// Creates are the pods to create.
	Creates []Creation
	// Together is how many of the first Creates the job needs before it can train. If a ResourceQuota has rejected a pod
	// of the job, none of them is created until the quota has room for all of them. 0 means that each pod is of use.
	Together int
	// CreateService reports whether to create the headless Service of the job.
	CreateService bool
	// EnsureNetworkPolicy reports whether to create or restore the NetworkPolicy of the job before any pod is created.
	EnsureNetworkPolicy bool
	// DeleteJob reports whether to delete the job because its time to live is over. Its pods are deleted with it.
	DeleteJob bool
	// Events are emitted after Status is written.
	Events []report.Event
	// NeedsLiveRead reports whether the controller must decide again on a live read, because a cache can be older than the
	// status. See needsLiveRead.
	NeedsLiveRead bool
	// Unclear are the main containers whose full output can show that another failure was the root cause, or what the
	// program printed. The end of the output, which is in their status, does not show that. Unclear is empty unless the
	// decision accounts for a failure.
	Unclear []Container
	// Restarts are the restarts that the decision makes. If there are any, the status write is never delayed.
	Restarts []Restart
	// Stall is how the controller reacts to a stall of the training that Status reports for the first time. Empty means
	// that there is no such stall.
	Stall batchv1beta1.ProgressPolicy
	// StartDuration is how long the job took from its creation until it ran. It is set when the job runs for the first
	// time.
	StartDuration *time.Duration
	// RecoveryDuration is how long the job took from a failure until every replica ran again, or until an elastic job
	// trained again. It is set when that happens.
	RecoveryDuration *time.Duration
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
	// Urgent reports whether nodes of the job might be idle until WakeAt. Then the job is reconciled before new jobs.
	Urgent bool
}

// Restart is a restart of a replica or of the whole job.
type Restart struct {
	// Cause is the reason of the failure, or ReasonCompleted.
	Cause string
	// Counted reports whether the restart counts towards backoffLimit.
	Counted bool
	// Node is the name of the node that caused the failure. It is empty if the node is not the cause, or if no container
	// started on it: the template of a job can name any node.
	Node string
}

// ChangesObjects reports whether the decision changes objects other than the job.
func (d *Decision) ChangesObjects() bool {
	return len(d.Releases) > 0 || len(d.Deletes) > 0 || len(d.CleanUps) > 0 || len(d.ForceDeletes) > 0 ||
		len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy || d.Admission.Action != ""
}

// wakeAt sets WakeAt, unless WakeAt is already earlier.
func (d *Decision) wakeAt(t time.Time) {
	if d.WakeAt.IsZero() || t.Before(d.WakeAt) {
		d.WakeAt = t
	}
}

// wakeUrgentlyAt sets WakeAt like wakeAt, and marks the job as urgent because nodes might be idle until then.
func (d *Decision) wakeUrgentlyAt(t time.Time) {
	d.wakeAt(t)
	d.Urgent = true
}

// addEvent adds an event. facts are the keys and values of its log line.
func (d *Decision) addEvent(eventType, reason, action, message string, facts ...any) {
	event := report.Event{Type: eventType, Reason: reason, Action: action, Message: message, Facts: facts}
	d.Events = append(d.Events, event)
}

// copyOf returns a copy of a status that Decide can change. The copy shares the tasks, because there can be many.
// Decide replaces tasks and never changes them in place.
func copyOf(status batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	tasks := status.Tasks
	status.Tasks = nil
	status = *status.DeepCopy()
	status.Tasks = tasks
	return status
}

// stored returns a time as the API server stores it, so that a status compares equal to itself after a round trip.
func stored(t time.Time) *metav1.Time {
	at := metav1.NewTime(t).Rfc3339Copy()
	return &at
}

// sortByName sorts pods, so that equal input gives equal decisions.
func sortByName(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// isRunning reports whether the condition Running is True.
func isRunning(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionRunning)
}

// isPaused reports whether the job is paused and has no pods.
func isPaused(status batchv1beta1.JobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionPaused)
}

// initialized returns the condition Initialized, or nil if it is not set.
func initialized(status batchv1beta1.JobStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
}
