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

// Decision is what to do about a job: write Status if it differs and is due, then change the admission, and last
// release, delete and create pods. In this order a failure is counted before the pod that shows it is deleted. So a
// crash in between loses nothing, and counts nothing twice.
type Decision struct {
	// Status that the job is to have.
	Status batchv1beta1.JobStatus
	// Admission is changed before the pods, so that the resources that it holds are released even if deleting a pod
	// fails.
	Admission Change
	// Releases lose the finalizer of leaders, after Status is written and before any pod is deleted. See release.go.
	Releases []*corev1.Pod
	// Deletes are deleted gracefully.
	Deletes []*corev1.Pod
	// CleanUps are deleted only in the version that was seen: a pod that has ended since may have to stay, with its
	// logs.
	CleanUps []*corev1.Pod
	// ForceDeletes are deleted with grace period 0, since their nodes are lost.
	ForceDeletes []*corev1.Pod
	// Creates are the pods to create.
	Creates []Creation
	// CreateService reports whether to create the headless Service of the job.
	CreateService bool
	// EnsureNetworkPolicy reports whether to create the NetworkPolicy of the job, or to put it back, before any pod is
	// created.
	EnsureNetworkPolicy bool
	// DeleteJob reports whether to delete the job because its time to live is over. Its pods go with it.
	DeleteJob bool
	// Events are emitted after Status is written.
	Events []report.Event
	// NeedsLiveRead reports whether the decision must be made again on what the API server has, because a cache may be
	// older than the status. See needsLiveRead.
	NeedsLiveRead bool
	// Unclear are the main containers whose whole output may tell that another failure was the root cause, since the
	// end of it, which their status has, does not. It is empty unless the decision accounts for a failure.
	Unclear []Container
	// Restarts that the decision makes. If there are any, the status write is never delayed.
	Restarts []Restart
	// StartDuration is how long the job took from its creation until it ran, if it now runs for the first time.
	StartDuration *time.Duration
	// RecoveryDuration is how long the job took from a failure until every replica ran again, or an elastic job trained
	// again, if that is now.
	RecoveryDuration *time.Duration
	// WakeAt is when to reconcile the job again even if nothing happens. Zero means never.
	WakeAt time.Time
	// Urgent reports whether nodes of the job may be idle until WakeAt, so that the job goes before new jobs.
	Urgent bool
}

// Restart is one restart, of a replica or of the whole job.
type Restart struct {
	// Cause is the reason of the failure, or ReasonCompleted.
	Cause string
	// Counted reports whether the restart counts towards backoffLimit.
	Counted bool
}

// ChangesObjects reports whether the decision changes objects other than the job.
func (d *Decision) ChangesObjects() bool {
	return len(d.Releases) > 0 || len(d.Deletes) > 0 || len(d.CleanUps) > 0 || len(d.ForceDeletes) > 0 ||
		len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy || d.Admission.Action != ""
}

// wakeAt sets WakeAt, unless it is earlier already.
func (d *Decision) wakeAt(t time.Time) {
	if d.WakeAt.IsZero() || t.Before(d.WakeAt) {
		d.WakeAt = t
	}
}

// wakeUrgentlyAt is wakeAt if nodes may be idle until then.
func (d *Decision) wakeUrgentlyAt(t time.Time) {
	d.wakeAt(t)
	d.Urgent = true
}

// addEvent adds an event. The facts are the keys and values of its log line.
func (d *Decision) addEvent(eventType, reason, action, message string, facts ...any) {
	event := report.Event{Type: eventType, Reason: reason, Action: action, Message: message, Facts: facts}
	d.Events = append(d.Events, event)
}

// copyOf returns a copy of a status that Decide may change. It shares the tasks, of which there may be many: Decide
// replaces them and never changes them in place.
func copyOf(status batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	tasks := status.Tasks
	//equivalent:without status.Tasks = nil => it only saves a copy
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

// initialized returns the condition Initialized, nil if it is not set.
func initialized(status batchv1beta1.JobStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionInitialized)
}
