package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// stallCheck is whether the training of a job is stalled, as the last readings of its pods show. The zero value means
// that this is unknown, or that the job has no deadline for progress.
type stallCheck struct {
	// isOnTime reports whether the readings show that the training is not stalled.
	isOnTime bool
	// stalled is the replica that makes no progress. Nil means that the training is not stalled, as far as is known.
	stalled *replica
	// message describes the stall.
	message string
	// due is when the training will be stalled if it makes no progress until then. Zero means never.
	due time.Time
}

// checkStall returns whether the training is stalled. A reading that is missing is never a stall. This is unknown while
// the job is paused or in debug mode, waits in a queue, must stop its pods, has a failure that is not decided, or has
// pods of replicas that it no longer needs.
func (v *view) checkStall() stallCheck {
	spec, status := v.job.Spec, v.job.Status
	limit, startLimit := seconds(spec.RunPolicy.ProgressDeadlineSeconds), seconds(spec.RunPolicy.StartupDeadlineSeconds)
	if !spec.ReportsProgress || spec.RunMode.Debugging() || spec.RunMode.Pausing() || !isRunning(status) ||
		v.whyStop() != "" || v.hasUnjudgedFailure() ||
		slices.ContainsFunc(v.replicas, (*replica).hasNewFailure) || v.hasSurplus() {
		return stallCheck{}
	}
	since := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime.Time
	if by, last := v.lastProgress(); last != nil {
		if last.IsFinal { // nothing was reported since then
			elapsed := v.now.Sub(last.Time)
			last.Time, last.Silence, last.Announced = v.now, last.Silence+elapsed, last.Announced-elapsed
		}
		return checkAfterReport(by, *last, v.lastStart(), since, startLimit, limit)
	}
	return v.checkBeforeReport(since, startLimit, limit)
}

// hasSurplus reports whether the job has pods of replicas that it no longer needs. They are deleted. Until they are
// gone, the other replicas might wait for them.
func (v *view) hasSurplus() bool {
	needed := make(map[string]bool, len(v.replicas))
	for _, r := range v.replicas {
		needed[r.member.Name] = true
	}
	for name := range v.seen.Pods {
		if !needed[name] {
			return true
		}
	}
	return false
}

// checkAfterReport returns whether a training is stalled that has reported progress. If its processes have started
// again since then, the limit is startLimit. since is when the job began to run. A limit of 0 means none.
func checkAfterReport(by *replica, last Reading, started, since time.Time, startLimit, limit time.Duration) stallCheck {
	missing, field := "no other step", "progressDeadlineSeconds"
	after, progress := cmp.Or(last.Status.Summary, "the first report"), last.progressTime()
	startsAgain := !started.Before(progress) // false if they have never started again
	if startsAgain {
		missing, field, after = "nothing", "startupDeadlineSeconds", "the training started again"
		progress, limit = started, startLimit
	}
	if limit == 0 || isDone(*last.Status) && !startsAgain {
		return stallCheck{isOnTime: true}
	}
	progress = later(progress, since)
	due := later(progress.Add(limit), last.Time.Add(last.Announced))
	if last.Time.Before(due) {
		return stallCheck{isOnTime: true, due: due}
	}
	return stallCheck{stalled: by, message: fmt.Sprintf(
		"%s was reported for runPolicy.%s (%d s) after %s at %s",
		missing, field, int64(limit/time.Second), after, progress.UTC().Format(time.RFC3339))}
}

// checkBeforeReport returns whether a training is stalled whose sidecars know no report. since is when the job began to
// run. A limit of 0 means none. All running pods that might report must have been read after the deadline.
//
// If the status has a report since the job runs, the sidecar was restarted, or the pod that sent it was replaced. Then
// the other deadline applies, from the start of the present sidecars, unless the processes have started again. A report
// in the second in which the job began to run might be of the attempt before.
func (v *view) checkBeforeReport(since time.Time, startLimit, limit time.Duration) stallCheck {
	last := v.job.Status.Progress
	began := later(since, v.lastStart())
	hasReported := last != nil && last.LastReportTime != nil && last.LastReportTime.After(began)
	message := fmt.Sprintf("nothing was reported for runPolicy.startupDeadlineSeconds (%d s) since the job runs",
		int64(startLimit/time.Second))
	if hasReported {
		startLimit = limit
		message = fmt.Sprintf("no other step was reported for runPolicy.progressDeadlineSeconds (%d s) after %s",
			int64(limit/time.Second), cmp.Or(last.Summary, "the first report"))
	}
	if startLimit == 0 {
		return stallCheck{isOnTime: v.isRead() && v.hasStalledSince(since)}
	}
	due := began.Add(startLimit)
	var first *replica
	for _, r := range v.replicas {
		if r.done || !r.runs() || !v.job.Spec.MayRunFirst(v.gang, *r.member) {
			continue
		}
		reading := v.readingOf(r)
		if hasReported {
			due = later(due, reading.Time.Add(startLimit-reading.Silence))
		}
		if reading.Time.Before(due) { // also if there is no reading
			if !v.now.Before(due) && (reading.Time.IsZero() || reading.Problem != "") {
				return stallCheck{} // the pod cannot be read, or has no sidecar although it might train
			}
			isRead := !reading.Time.IsZero() && v.now.Before(due)
			return stallCheck{due: due, isOnTime: isRead && v.hasStalledSince(since)}
		}
		first = cmp.Or(first, r)
	}
	return stallCheck{stalled: first, message: message}
}

// hasStalledSince reports whether the status shows a stall that began since the job runs. If it does, and the job is
// not stalled now, a deadline was changed. Otherwise, the stall ended the attempt before, and this one has to report.
func (v *view) hasStalledSince(since time.Time) bool {
	c := meta.FindStatusCondition(v.job.Status.Conditions, batchv1beta1.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.Time.Before(since)
}

// unreadDelay is how long the progress of a running job can be unreadable before the status shows it.
const unreadDelay = 2 * time.Minute

// unread returns why the progress of a running job with a deadline cannot be read. It is empty if the progress of at
// least one pod can be read, or if this is not known yet.
func (v *view) unread() string {
	if !v.hasStallDeadline() || !isRunning(v.job.Status) {
		return ""
	}
	since := meta.FindStatusCondition(v.job.Status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime.Time
	message := ""
	for _, r := range v.replicas {
		if r.done || !r.runs() || !v.job.Spec.MayReport(v.gang, *r.member) {
			continue
		}
		reading := v.readingOf(r)
		if reading.Problem == "" || v.now.Sub(later(reading.Time, since)) < unreadDelay {
			return ""
		}
		message = cmp.Or(message,
			fmt.Sprintf("the progress of replica %s cannot be read: %s", r.member.Name, reading.Problem))
	}
	return message
}

// stall returns the stall of the training as the failure that restarts all replicas. It is nil if the training is not
// stalled, or if the policy does not restart it.
func (v *view) stall() *replicaFailure {
	if v.job.Spec.RunPolicy.ProgressPolicy != batchv1beta1.ProgressPolicyRestart {
		return nil
	}
	check := v.checkStall()
	if check.stalled == nil {
		return nil
	}
	return &replicaFailure{replica: check.stalled, failure: policy.Failure{
		Reason: batchv1beta1.ReasonNoProgress, Message: check.message, Time: v.now,
	}}
}

// isStall reports whether the failure is a stall of the training. The pod of the replica still runs.
func (f *replicaFailure) isStall() bool {
	return f != nil && f.failure.Reason == batchv1beta1.ReasonNoProgress
}

// hasNewFailure reports whether the replica has ended or was deleted, and the status does not account for that yet.
func (r *replica) hasNewFailure() bool {
	return !r.done && (r.failure() != nil || r.deletion() != nil)
}

// reportStall sets the condition Stalled. before is the view before restarts.
func (s *steps) reportStall(before view) {
	check, unread := before.checkStall(), before.unread()
	was := metav1.ConditionFalse
	if c := meta.FindStatusCondition(s.Status.Conditions, batchv1beta1.ConditionStalled); c != nil {
		was = c.Status
	}
	isCause := s.lastRestarted.isStall() || s.endedBy.isStall()
	const onTime = "the training is within its deadlines again"
	switch {
	case isCause:
		s.Stall = batchv1beta1.ProgressPolicyRestart
		s.setStalled(metav1.ConditionTrue, batchv1beta1.ReasonNoProgress, check.message)
	case was != metav1.ConditionFalse && (s.Status.StartTime == nil || s.Status.Decided()):
		if !before.job.Status.Decided() {
			s.setStalled(metav1.ConditionFalse, batchv1beta1.ReasonNotRunning, "the training does not run anymore")
		}
	case s.Status.Decided():
	case check.stalled != nil && was != metav1.ConditionTrue:
		s.Stall = batchv1beta1.ProgressPolicyNotify
		s.setStalled(metav1.ConditionTrue, batchv1beta1.ReasonNoProgress, check.message)
		s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventStalled, "Observe",
			fmt.Sprintf("replica %s: %s", check.stalled.member.Name, check.message), "replica", check.stalled.member.Name)
	case check.isOnTime && was == metav1.ConditionTrue:
		s.setStalled(metav1.ConditionFalse, batchv1beta1.ReasonProgressing, onTime)
		s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventProgressing, "Observe", onTime)
	case unread != "" && was == metav1.ConditionFalse:
		s.setStalled(metav1.ConditionUnknown, batchv1beta1.ReasonProgressUnknown, unread)
		s.addEvent(corev1.EventTypeWarning, batchv1beta1.ReasonProgressUnknown, "Observe", unread)
	case unread == "" && was == metav1.ConditionUnknown && (before.isRead() || !before.hasStallDeadline()):
		s.setStalled(metav1.ConditionFalse, batchv1beta1.ReasonProgressing,
			"the progress can be read again, or there is no deadline anymore")
	}
	if !check.due.IsZero() && isRunning(s.Status) {
		s.wakeAt(later(check.due, s.now.Add(ReadingInterval)))
	}
}

// setStalled sets the condition Stalled.
func (s *steps) setStalled(status metav1.ConditionStatus, reason, message string) {
	s.setCondition(batchv1beta1.ConditionStalled, status, reason, message)
}

// hasStallDeadline reports whether the job has a deadline for progress or for its start.
func (v *view) hasStallDeadline() bool {
	run := v.job.Spec.RunPolicy
	return run.ProgressDeadlineSeconds != nil || run.StartupDeadlineSeconds != nil
}

// isRead reports whether the last read of the progress of a current pod succeeded.
func (v *view) isRead() bool {
	return slices.ContainsFunc(v.replicas, func(r *replica) bool {
		reading := v.readingOf(r)
		return !reading.Time.IsZero() && reading.Problem == ""
	})
}

// seconds returns the duration of a number of seconds. Unset is 0.
func seconds(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
