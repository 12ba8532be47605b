package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// StallCheck reports whether the training of a job is stalled, according to the last readings of the pods. The zero
// value means that this is unknown, or that the job has no deadline for progress.
type StallCheck struct {
	// IsOnTime reports whether the readings show that the training is not stalled.
	IsOnTime bool
	// Stalled is the replica that makes no progress. Nil means that the training is not stalled, as far as is known.
	Stalled *Replica
	// Message describes the stall.
	Message string
	// Due is when the training will be stalled if it makes no progress until then. Zero means never.
	Due time.Time
}

// CheckStall returns whether the training is stalled. A missing reading is never a stall. The result is unknown while
// the job does not run, is paused, is in debug mode or must stop its pods. It is also unknown while the controller
// has not decided about a failure, or while the job has pods of replicas that it no longer needs.
func (v *View) CheckStall() StallCheck {
	spec, status := v.Job.Spec, v.Job.Status
	limit, startLimit := seconds(spec.RunPolicy.ProgressDeadlineSeconds), seconds(spec.RunPolicy.StartupDeadlineSeconds)
	if !spec.ReportsProgress || spec.RunMode.Debugging() || spec.RunMode.Pausing() || !IsRunning(status) ||
		v.WhyStop() != "" || v.HasUnjudgedFailure() ||
		slices.ContainsFunc(v.Replicas, (*Replica).hasNewFailure) || v.hasSurplus() {
		return StallCheck{}
	}
	since := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime.Time
	if by, last := v.LastProgress(); last != nil {
		if last.IsFinal { // nothing was reported since then
			elapsed := v.Now.Sub(last.Time)
			last.Time, last.Silence, last.Announced = v.Now, last.Silence+elapsed, last.Announced-elapsed
		}
		return checkAfterReport(by, *last, v.lastStart(), since, startLimit, limit)
	}
	return v.checkBeforeReport(since, startLimit, limit)
}

// hasSurplus reports whether the job has pods of replicas that it no longer needs. Such pods are being deleted. Until
// they are gone, the other replicas might wait for them.
func (v *View) hasSurplus() bool {
	needed := v.ByName()
	for name := range v.Seen.Pods {
		if needed[name] == nil {
			return true
		}
	}
	return false
}

// checkAfterReport returns whether a training that has reported progress is stalled. The parameter started is when
// the processes of the training last started again, and since is when the job began to run. If the processes have
// started again since the last progress, startLimit applies. Otherwise, limit applies. 0 means no limit.
func checkAfterReport(by *Replica, last Reading, started, since time.Time, startLimit, limit time.Duration) StallCheck {
	missing, field := "no other step", "progressDeadlineSeconds"
	after, progress := cmp.Or(last.Status.Summary, "the first report"), last.progressTime()
	startsAgain := !started.Before(progress) // false if started is zero
	if startsAgain {
		missing, field, after = "nothing", "startupDeadlineSeconds", "the training started again"
		progress, limit = started, startLimit
	}
	if limit == 0 || isDone(*last.Status) && !startsAgain {
		return StallCheck{IsOnTime: true}
	}
	progress = Later(progress, since)
	due := Later(progress.Add(limit), last.Time.Add(last.Announced))
	if last.Time.Before(due) {
		return StallCheck{IsOnTime: true, Due: due}
	}
	return StallCheck{Stalled: by, Message: fmt.Sprintf(
		"%s was reported for runPolicy.%s (%d s) after %s at %s",
		missing, field, int64(limit/time.Second), after, progress.UTC().Format(time.RFC3339))}
}

// checkBeforeReport returns whether a training is stalled. It is for a training about which the receivers of the
// current pods have no report. The parameter since is when the job began to run. A limit of 0 means no limit. The
// training is stalled only if, after the deadline, the controller has read each running pod that might report.
//
// The status can have a report that is later than the beginning of the run and the last start of the processes. In
// this case, the receiver of the report was restarted since, or its pod was replaced. Then limit applies instead of
// startLimit, and it counts from the start of the present receivers. A report in the second in which the job began to
// run does not count, because it might be from the earlier attempt.
func (v *View) checkBeforeReport(since time.Time, startLimit, limit time.Duration) StallCheck {
	last := v.Job.Status.Progress
	began := Later(since, v.lastStart())
	hasReported := last != nil && last.LastReportTime != nil && last.LastReportTime.After(began)
	message := fmt.Sprintf("nothing was reported for runPolicy.startupDeadlineSeconds (%d s) since the job runs",
		int64(startLimit/time.Second))
	if hasReported {
		startLimit = limit
		message = fmt.Sprintf("no other step was reported for runPolicy.progressDeadlineSeconds (%d s) after %s",
			int64(limit/time.Second), cmp.Or(last.Summary, "the first report"))
	}
	if startLimit == 0 {
		return StallCheck{IsOnTime: v.IsRead() && v.hasStalledSince(since)}
	}
	due := began.Add(startLimit)
	var first *Replica
	for _, r := range v.Replicas {
		if r.Done || !r.Runs() || !v.Job.Spec.MayRunFirst(v.Peers, *r.Member) {
			continue
		}
		reading := v.ReadingOf(r)
		if hasReported {
			due = Later(due, reading.Time.Add(startLimit-reading.Silence))
		}
		if reading.Time.Before(due) { // always true without a reading
			if !v.Now.Before(due) && (reading.Time.IsZero() || reading.Problem != "") {
				return StallCheck{} // the pod cannot be read, or has no sidecar although it might train
			}
			isRead := !reading.Time.IsZero() && v.Now.Before(due)
			return StallCheck{Due: due, IsOnTime: isRead && v.hasStalledSince(since)}
		}
		first = cmp.Or(first, r)
	}
	return StallCheck{Stalled: first, Message: message}
}

// hasStalledSince reports whether the status shows a stall of the present attempt. The parameter since is when the
// job began to run in this attempt. If the training has reported nothing and is not stalled now, a stall of the
// present attempt is over, because the deadline was changed. A stall of an earlier attempt is over only when the
// present attempt has reported something.
func (v *View) hasStalledSince(since time.Time) bool {
	c := meta.FindStatusCondition(v.Job.Status.Conditions, batchv1beta1.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.Time.Before(since)
}

// unreadDelay is how long the progress of a running job can be unreadable before the status shows it.
const unreadDelay = 2 * time.Minute

// Unread returns why the progress of a running job with a deadline cannot be read. It is empty if the progress of at
// least one pod can be read. It is also empty until unreadDelay has passed since the job began to run and since the
// last successful read.
func (v *View) Unread() string {
	if !v.HasStallDeadline() || !IsRunning(v.Job.Status) {
		return ""
	}
	since := meta.FindStatusCondition(v.Job.Status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime.Time
	message := ""
	for _, r := range v.Replicas {
		if r.Done || !r.Runs() || !v.Job.Spec.MayReport(v.Peers, *r.Member) {
			continue
		}
		reading := v.ReadingOf(r)
		if reading.Problem == "" || v.Now.Sub(Later(reading.Time, since)) < unreadDelay {
			return ""
		}
		message = cmp.Or(message,
			fmt.Sprintf("the progress of replica %s cannot be read: %s", r.Member.Name, reading.Problem))
	}
	return message
}

// stall returns the stall of the training as the failure that restarts all replicas. It is nil if the training is not
// stalled, or if progressPolicy is not Restart.
func (v *View) stall() *ReplicaFailure {
	if v.Job.Spec.RunPolicy.ProgressPolicy != batchv1beta1.ProgressPolicyRestart {
		return nil
	}
	check := v.CheckStall()
	if check.Stalled == nil {
		return nil
	}
	return &ReplicaFailure{Replica: check.Stalled, Failure: policy.Failure{
		Reason: batchv1beta1.ReasonNoProgress, Message: check.Message, Time: v.Now,
	}}
}

// IsStall reports whether the failure is a stall of the training. In this case, the pod of the replica still runs.
func (f *ReplicaFailure) IsStall() bool {
	return f != nil && f.Failure.Reason == batchv1beta1.ReasonNoProgress
}

// hasNewFailure reports whether the replica has failed or was deleted, and the status does not account for that yet.
func (r *Replica) hasNewFailure() bool {
	return !r.Done && (r.Failure() != nil || r.Deletion() != nil)
}

// HasStallDeadline reports whether the job has a deadline for progress or for its start.
func (v *View) HasStallDeadline() bool {
	run := v.Job.Spec.RunPolicy
	return run.ProgressDeadlineSeconds != nil || run.StartupDeadlineSeconds != nil
}

// IsRead reports whether the last read of the progress succeeded for at least one current pod.
func (v *View) IsRead() bool {
	return slices.ContainsFunc(v.Replicas, func(r *Replica) bool {
		reading := v.ReadingOf(r)
		return !reading.Time.IsZero() && reading.Problem == ""
	})
}

// seconds returns a number of seconds as a duration. Nil means 0.
func seconds(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
