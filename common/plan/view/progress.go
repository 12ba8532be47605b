package view

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
	// Silence is how long the training had made no progress at that time, by the clock of the sidecar. It makes
	// progress if it reports another step.
	Silence time.Duration
	// Announced is for how much longer the training had announced at that time to report no step.
	Announced time.Duration
	// Started is when the processes of the training last started again in the pod. Zero means that they have not, or
	// that they have reported something to this sidecar since.
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

// IsWatched reports whether the progress of the training is followed here.
func (v *View) IsWatched() bool {
	return v.Job.Spec.ReportsProgress && v.Job.Spec.RunsHere() && !v.Job.Status.Finished() && !v.Job.Deleting
}

// ReadingOf returns the reading of the current pod of a replica, or an empty one if there is none.
func (v *View) ReadingOf(r *Replica) Reading {
	if !r.IsCurrent() {
		return Reading{}
	}
	return v.Seen.Readings[r.Pod.UID]
}

// LastProgress returns the replica whose training made progress last, and its reading. Both are nil if no current pod
// has reported anything.
func (v *View) LastProgress() (*Replica, *Reading) {
	var last *Reading
	var by *Replica
	for _, r := range v.Replicas {
		reading := v.ReadingOf(r)
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
func (v *View) lastStart() time.Time {
	var last time.Time
	for _, r := range v.Replicas {
		last = Later(last, v.ReadingOf(r).Started)
	}
	return last
}

// HasNews reports whether the last progress among the readings differs from the progress that the status shows.
func HasNews(status batchv1beta1.JobStatus, readings map[types.UID]Reading) bool {
	var last Reading
	for _, reading := range readings {
		if reading.Status != nil && reading.progressTime().After(last.progressTime()) {
			last = reading
		}
	}
	return last.Status != nil && !IsSameProgress(status.Progress, last.Status)
}

// progressTime returns when the training made progress.
func (r Reading) progressTime() time.Time { return r.Time.Add(-r.Silence) }

// IsSameProgress reports whether a reading adds nothing to the recorded progress. The times of two readings of the same
// report differ by the duration of a request.
func IsSameProgress(recorded, read *batchv1beta1.ProgressStatus) bool {
	const tolerance = 2 * time.Second
	if recorded == nil || recorded.LastReportTime == nil || read.LastReportTime == nil ||
		recorded.LastReportTime.Sub(read.LastReportTime.Time).Abs() > tolerance {
		return false
	}
	same := *read
	same.LastReportTime, same.EstimatedCompletionTime = recorded.LastReportTime, recorded.EstimatedCompletionTime
	return equality.Semantic.DeepEqual(*recorded, same)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
