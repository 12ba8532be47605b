package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	// ProgressInterval is the minimum time between two status writes that report only progress.
	ProgressInterval = 30 * time.Second
	// ReadingInterval is the time between two readings of the progress of a pod.
	ReadingInterval = 15 * time.Second
)

// Reading is the progress that the sidecar of a pod knew at a time.
type Reading struct {
	// Time is when the sidecar was last read. Zero means never.
	Time time.Time
	// Status is the last report. Nil means that the training has reported nothing to this sidecar.
	Status *batchv1beta1.ProgressStatus
	// Silence is how long the training had made no progress at that time, by the clock of the sidecar. It makes progress
	// if it reports another step.
	Silence time.Duration
	// Announced is for how much longer the training had announced at that time to report no step.
	Announced time.Duration
	// Started is when the processes of the training last started again in the pod. Zero means that they have not, or that
	// they have reported something to this sidecar since.
	Started time.Time
	// IsFinal reports whether the sidecar has ended, so that the training of the pod can report nothing anymore.
	IsFinal bool
	// Problem is why the sidecar could not be read since then. Empty means that nothing failed.
	Problem string
}

// isDone reports whether the status of a reading shows that the training is done.
func isDone(status batchv1beta1.ProgressStatus) bool {
	return status.Percent != nil && *status.Percent >= 100
}

// readingOf returns the reading of the current pod of a replica, or an empty one if there is none.
func (v *view) readingOf(r *replica) Reading {
	if !r.isCurrent() {
		return Reading{}
	}
	return v.seen.Readings[r.pod.UID]
}

// lastProgress returns the replica whose training made progress last, and its reading. Both are nil if no current pod
// has reported anything.
func (v *view) lastProgress() (*replica, *Reading) {
	var last *Reading
	var by *replica
	for _, r := range v.replicas {
		reading := v.readingOf(r)
		if reading.Status == nil {
			continue
		}
		if last == nil || reading.progressTime().After(last.progressTime()) {
			last, by = &reading, r
		}
	}
	return by, last
}

// lastStart returns when the processes of the training last started again in current pods. Zero means never, as far as
// is known.
func (v *view) lastStart() time.Time {
	var last time.Time
	for _, r := range v.replicas {
		last = later(last, v.readingOf(r).Started)
	}
	return last
}

// setProgress updates the progress in the status when the next write for progress alone is due. It does so earlier if
// the decision restarts or stops replicas, ends or finishes the job, or reports a stall: the readings might be lost
// later, and the message of the stall names the last step. before is the view before restarts, whose pods have the
// progress.
func (s *steps) setProgress(before view) {
	was := before.job.Status
	_, reading := before.lastProgress()
	isNew := reading != nil && !isSameProgress(was.Progress, reading.Status)
	isWritten := len(s.Restarts) > 0 || jobAttempt(s.Status) != jobAttempt(was) || s.Stall != "" ||
		s.Status.Decided() != was.Decided() || s.Status.Finished()
	if isNew && (isWritten || !s.now.Before(s.seen.ProgressDue)) {
		s.Status.Progress = reading.Status.DeepCopy()
		isNew = false
	}
	switch {
	case !isRunning(s.Status):
		if s.Status.Progress != nil {
			s.Status.Progress.EstimatedCompletionTime = nil // nobody knows when the training goes on
		}
	case isNew:
		s.wakeAt(s.seen.ProgressDue)
	default:
		s.wakeAt(later(s.seen.ProgressDue, s.now.Add(ProgressInterval)))
	}
}

// HasNews reports whether the last progress among the readings differs from the progress that the status shows.
func HasNews(status batchv1beta1.JobStatus, readings map[types.UID]Reading) bool {
	var last Reading
	for _, reading := range readings {
		if reading.Status != nil && reading.progressTime().After(last.progressTime()) {
			last = reading
		}
	}
	return last.Status != nil && !isSameProgress(status.Progress, last.Status)
}

// progressTime returns when the training made progress.
func (r Reading) progressTime() time.Time { return r.Time.Add(-r.Silence) }

// isSameProgress reports whether a reading adds nothing to the recorded progress. The times of two readings of the same
// report differ by the duration of a request.
func isSameProgress(recorded, read *batchv1beta1.ProgressStatus) bool {
	const tolerance = 2 * time.Second
	if recorded == nil || recorded.LastReportTime == nil || read.LastReportTime == nil ||
		recorded.LastReportTime.Sub(read.LastReportTime.Time).Abs() > tolerance {
		return false
	}
	same := *read
	same.LastReportTime, same.EstimatedCompletionTime = recorded.LastReportTime, recorded.EstimatedCompletionTime
	return equality.Semantic.DeepEqual(*recorded, same)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
