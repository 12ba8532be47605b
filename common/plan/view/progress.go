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

// Reading is the progress that the controller has read from the receiver, a sidecar of a pod. It can also have the
// restarts in place that the supervisor of the pod has counted.
type Reading struct {
	// Time is when the receiver was last read successfully. Zero means never.
	Time time.Time
	// Status is the last report. Nil means that the training has reported nothing to this receiver.
	Status *batchv1beta1.ProgressStatus
	// Silence is the time from the last progress, such as another step, to Time. If there is no report, Silence counts
	// from the start of the receiver. The receiver measures this time by its own clock.
	Silence time.Duration
	// Announced is how long the training will report no progress after Time, according to its own announcement.
	Announced time.Duration
	// Started is when the processes of the training last started again in the pod. Zero means that they have not
	// started again, or have reported something to this receiver since.
	Started time.Time
	// IsFinal reports whether the receiver has ended, so that there are no more reports from this pod.
	IsFinal bool
	// Problem is why the receiver could not be read since Time. Empty means that no read has failed since then.
	Problem string

	// Restarts is the number of restarts in place that the pod has counted. LastRestarts are the last of them, newest
	// first.
	Restarts     int32
	LastRestarts []batchv1beta1.RestartInPlace
}

// isDone reports whether the status of a reading shows that the training is done.
func isDone(status batchv1beta1.ProgressStatus) bool {
	return status.Percent != nil && *status.Percent >= 100
}

// IsFollowed reports whether this controller reads pods of the job: the progress of the training, or the number of
// restarts in place.
func (j *Job) IsFollowed() bool {
	return (j.Spec.ReportsProgress || j.Spec.RestartsInPlace) && j.Spec.RunsHere() && !j.Status.Finished() && !j.Deleting
}

// ReadingOf returns the reading of the current pod of a replica, or an empty one if there is none.
func (v *View) ReadingOf(r *Replica) Reading {
	if !r.IsCurrent() {
		return Reading{}
	}
	return v.Seen.Readings[r.Pod.UID]
}

// LastProgress returns the replica whose reading has the latest progress, and this reading. Both are nil if no
// current pod has reported anything.
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

// lastStart returns the latest time Started in the readings of current pods. Zero means that no reading has such a
// time.
func (v *View) lastStart() time.Time {
	var last time.Time
	for _, r := range v.Replicas {
		last = Later(last, v.ReadingOf(r).Started)
	}
	return last
}

// HasNews reports whether the last progress among the readings differs from the progress that the status shows, or
// whether a pod has counted restarts in place that the status lacks.
func HasNews(status batchv1beta1.JobStatus, readings map[types.UID]Reading) bool {
	var last Reading
	for pod, reading := range readings {
		if unrecorded(status.RestartsInPlace, pod, reading) > 0 {
			return true
		}
		if reading.Status != nil && reading.progressTime().After(last.progressTime()) {
			last = reading
		}
	}
	return last.Status != nil && !IsSameProgress(status.Progress, last.Status)
}

// progressTime returns when the training last made progress.
func (r Reading) progressTime() time.Time { return r.Time.Add(-r.Silence) }

// IsSameProgress reports whether a reading adds nothing to the recorded progress. Two readings of one report can have
// slightly different times, because the receiver reports only the age of the report.
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
