// Package status renders the status that results from a decision: its fields, conditions and tasks, and the events. It
// decides nothing.
package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Rendering is the status that results from a decision, with its events.
type Rendering struct {
	// Status is the new status of the job.
	Status batchv1beta1.JobStatus
	// Events are the events to emit after Status is written.
	Events []report.Event
	// AnnouncesWait reports whether an event is about a wait for admission that does not end by itself.
	AnnouncesWait bool
	// StartDuration is the time from the creation of the job until the job runs for the first time. If the job was
	// paused before it ran, the time counts from its start after the pause. Nil unless the job runs for the first time
	// now.
	StartDuration *time.Duration
	// Recovery is the recovery of the job from a failure. Nil unless the job recovers now.
	Recovery *Recovery
}

// Recovery is how long a job took from a failure until every replica ran again, or until an elastic job trained again.
type Recovery struct {
	// Cause is the reason of the failure.
	Cause    string
	Duration time.Duration
}

// Render returns the status that results from the facts of a decision. v is the view of the job after the decision,
// and old is the status before the decision. Facts that old already records change nothing. So if the result is
// rendered again with the same view and the same facts, it stays the same.
func Render(v view.View, f decide.Facts, old batchv1beta1.JobStatus) Rendering {
	if f.Forgets {
		old = batchv1beta1.JobStatus{}
	}
	r := &renderer{View: v, facts: &f, Rendering: Rendering{Status: copyOf(old)}}
	if f.Action == decide.Leave || f.Action == decide.Expire || f.Action == decide.Dispatch {
		return r.Rendering
	}
	r.setIdentity()
	r.setCounts()
	r.resume()
	r.setRestartsInPlace()
	r.announceHappenings()
	r.setTasks()
	r.setInitialized()
	r.setReplicaFailure()
	r.setPaused()
	r.setRunning()
	r.setEnd()
	r.setPhase()
	r.setReason()
	r.setStalled()
	r.setProgress()
	r.dropDefaults()
	r.fit()
	r.recordDefaults()
	return r.Rendering
}

// renderer renders facts. Each field and each condition of the status is set in one file only.
type renderer struct {
	view.View
	Rendering

	facts *decide.Facts
	// resumes reports whether the job is resumed after a pause.
	resumes bool
}

// setIdentity sets the observed generation, and the selector that selects the pods of the job.
func (r *renderer) setIdentity() {
	if r.facts.Action == decide.End && r.Job.Spec.RunsElsewhere() {
		return // the status is still the one of the copy in the other cluster
	}
	r.Status.ObservedGeneration = r.Job.Generation
	if r.facts.Action != decide.End && r.facts.Action != decide.CleanUp {
		r.Status.Selector = labels.SelectorFromSet(view.SelectorLabels(r.Job.Kind.Kind, r.Job.Name)).String()
	}
}

// setCounts sets the counts, the start time, the failures and the avoided nodes.
func (r *renderer) setCounts() {
	counts := r.facts.Counts
	r.Status.Attempt, r.Status.Pauses, r.Status.Evictions = counts.Restarts, counts.Pauses, counts.Evictions
	r.Status.BackoffCount, r.Status.Disruptions = counts.Backoff, counts.Disruptions
	r.Status.StartTime = r.facts.StartTime
	r.Status.Failures = slices.Clone(r.facts.Failures)
	r.Status.AvoidedNodes = slices.Clone(r.facts.AvoidedNodes)
}

// begins reports whether the action starts a job that has not started. Even then, the job might have to wait for its
// admission.
func (r *renderer) begins() bool {
	return r.runs() || r.facts.Action == decide.DecideEnd || r.facts.Action == decide.AwaitRootCause
}

// catchesUp reports whether pods exist although the first status write was deferred. If so, the status must include
// the conditions that the first write would have set.
func (r *renderer) catchesUp() bool { return r.begins() && r.HasUnreportedPods() }

// runs reports whether replicas are restarted and created as needed.
func (r *renderer) runs() bool {
	return slices.Contains([]decide.Action{decide.Run, decide.Withdraw, decide.GiveBack}, r.facts.Action)
}

// setCondition sets a condition of the status.
func (r *renderer) setCondition(conditionType string, conditionStatus metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             conditionStatus,
		Reason:             reason,
		Message:            report.Truncated(message, report.MaxMessage),
		ObservedGeneration: r.Job.Generation,
		LastTransitionTime: *view.Stored(r.Now),
	})
}

// addEvent adds an event. The parameter facts has the keys and values of its log line.
func (r *renderer) addEvent(eventType, reason, action, message string, facts ...any) {
	event := report.Event{Type: eventType, Reason: reason, Action: action, Message: message, Facts: facts}
	r.Events = append(r.Events, event)
}

// copyOf returns a copy of a status for the renderer to change. The copy shares the tasks, because a job can have
// many replicas. The renderer replaces the tasks and never changes the shared ones.
func copyOf(status batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	tasks := status.Tasks
	status.Tasks = nil
	status = *status.DeepCopy()
	status.Tasks = tasks
	return status
}
