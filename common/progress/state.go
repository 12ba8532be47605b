package progress

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// MaxAge is the maximum of SinceReport, SinceProgress, SinceStart and Remaining.
const MaxAge = 10 * 365 * 24 * time.Hour

// State is the progress that a receiver knows. Its JSON has at most 2 KiB, so that it also fits into the termination
// message of a container. Instead of times, it contains durations, which the receiver measures with its own monotonic
// clock. So the clocks of nodes need not agree. The lists and pointers of a State are read-only.
type State struct {
	// Reports is the number of reports so far, without starts. 0 means that there is none, and then all other fields
	// except SinceProgress, SinceStart and Restarts are empty.
	Reports int64
	// Percent, Step, TotalSteps and Metrics have the limits of a Report. Each of them has the last value that was
	// reported. Nil means that no value was reported. If the last report of steps had no percentage, Percent is computed
	// from Step and TotalSteps.
	Percent          *int32
	Step, TotalSteps *int64
	Metrics          []batchv1beta1.ProgressMetric
	// SinceReport is the time since the last report.
	SinceReport time.Duration
	// SinceProgress is the time since the last report that was progress, or since the receiver started if there is no
	// report. The first report is progress, and so is the first report after a start. After that, a step that differs
	// from the last one is progress, even a smaller one, because a program can resume from an earlier checkpoint. If no
	// report has had a step, a percentage that differs from the last one is progress.
	SinceProgress time.Duration
	// AnnouncedSilence is the remaining part of the announced silence, at most MaxSilence. The silence begins with the
	// last report that announced one. It ends early with the next progress. 0 means none.
	AnnouncedSilence time.Duration
	// SinceStart is the time since the processes of the training last started again in the pod. See Report.IsStart. Nil
	// means that they have not started again, or that there was a report since.
	SinceStart *time.Duration
	// Remaining is the estimated time until the last step. The estimate uses the average speed since the latest of these
	// three steps: the first step that the receiver got, the first one after a start, and the last one that was smaller
	// than the step before. While no further step is reported, Remaining decreases with the passing time, down to 0. Nil
	// means that the steps or the speed are unknown, or that the estimate exceeds MaxAge.
	Remaining *time.Duration
	// Restarts are the restarts in place, if the state is from the supervisor of a leader. Receivers do not set it.
	Restarts Restarts
}

// wire is the JSON form of a State. Fields that a newer receiver adds are ignored.
type wire struct {
	Reports          int64             `json:"reports"`
	Percent          *int32            `json:"percent,omitempty"`
	Step             *int64            `json:"step,omitempty"`
	TotalSteps       *int64            `json:"totalSteps,omitempty"`
	Metrics          map[string]string `json:"metrics,omitempty"`
	SinceReport      int64             `json:"sinceReportMilliseconds"`
	SinceProgress    int64             `json:"sinceProgressMilliseconds"`
	AnnouncedSilence int64             `json:"announcedSilenceMilliseconds,omitempty"`
	SinceStart       *int64            `json:"sinceStartMilliseconds,omitempty"`
	Remaining        *int64            `json:"remainingMilliseconds,omitempty"`
	Restarts         Restarts          `json:"restarts,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) {
	w := wire{
		Reports: s.Reports, Percent: s.Percent, Step: s.Step, TotalSteps: s.TotalSteps,
		SinceReport: s.SinceReport.Milliseconds(), SinceProgress: s.SinceProgress.Milliseconds(),
		AnnouncedSilence: s.AnnouncedSilence.Milliseconds(), Restarts: s.Restarts,
	}
	if len(s.Metrics) > 0 {
		w.Metrics = map[string]string{}
	}
	for _, m := range s.Metrics {
		w.Metrics[m.Name] = m.Value
	}
	if s.SinceStart != nil {
		w.SinceStart = new(s.SinceStart.Milliseconds())
	}
	if s.Remaining != nil {
		w.Remaining = new(s.Remaining.Milliseconds())
	}
	return json.Marshal(w)
}

// ParseState parses the JSON of a State. It returns an error if the state exceeds any limit, because such a state is
// not from a receiver of this project. Of a state without reports, it reads only SinceProgress, SinceStart and
// Restarts. An error contains nothing of the state, except names of fields.
func ParseState(body []byte) (State, error) {
	if len(body) > MaxBody {
		return State{}, fmt.Errorf("the state has more than %d bytes", MaxBody)
	}
	var w wire
	if json.Unmarshal(body, &w) != nil {
		return State{}, errors.New("the state does not have the JSON form of a receiver")
	}
	if w.Reports == 0 {
		w = wire{SinceProgress: w.SinceProgress, SinceStart: w.SinceStart, Restarts: w.Restarts}
	}
	for _, field := range []struct {
		name               string
		value, least, most int64
	}{
		{"reports", w.Reports, 0, math.MaxInt64},
		{"percent", int64(ptr.Deref(w.Percent, 0)), 0, 100},
		{"step", ptr.Deref(w.Step, 0), 0, MaxStep},
		{"totalSteps", ptr.Deref(w.TotalSteps, 1), 1, MaxStep},
		{"metrics", int64(len(w.Metrics)), 0, MaxMetrics},
		{"sinceReportMilliseconds", w.SinceReport, 0, MaxAge.Milliseconds()},
		{"sinceProgressMilliseconds", w.SinceProgress, 0, MaxAge.Milliseconds()},
		{"announcedSilenceMilliseconds", w.AnnouncedSilence, 0, MaxSilence.Milliseconds()},
		{"sinceStartMilliseconds", ptr.Deref(w.SinceStart, 0), 0, MaxAge.Milliseconds()},
		{"remainingMilliseconds", ptr.Deref(w.Remaining, 0), 0, MaxAge.Milliseconds()},
	} {
		if field.value < field.least || field.value > field.most {
			return State{}, fmt.Errorf("the field %q of the state must be from %d to %d", field.name, field.least, field.most)
		}
	}
	if err := w.Restarts.validate(); err != nil {
		return State{}, err
	}
	for name, value := range w.Metrics {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !isMetricName(name) {
			return State{}, errors.New(`the field "metrics" of the state has an invalid metric`)
		}
		w.Metrics[name] = format(number)
	}
	s := State{
		Reports: w.Reports, Percent: w.Percent, Step: w.Step, TotalSteps: w.TotalSteps, Metrics: sorted(w.Metrics),
		SinceReport: milliseconds(w.SinceReport), SinceProgress: milliseconds(w.SinceProgress),
		AnnouncedSilence: milliseconds(w.AnnouncedSilence), Restarts: w.Restarts,
	}
	if w.SinceStart != nil {
		s.SinceStart = new(milliseconds(*w.SinceStart))
	}
	if w.Remaining != nil {
		s.Remaining = new(milliseconds(*w.Remaining))
	}
	return s, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Status returns the progress for the status of a job. The state must be from the receiver of the replica at the
// given time. Status returns nil if nothing was reported.
func (s State) Status(now time.Time, replica string) *batchv1beta1.ProgressStatus {
	if s.Reports == 0 {
		return nil
	}
	status := &batchv1beta1.ProgressStatus{
		Summary: s.summary(), Percent: s.Percent, Step: s.Step, TotalSteps: s.TotalSteps, Metrics: s.Metrics,
		LastReportTime: seconds(now.Add(-s.SinceReport)), Replica: replica,
	}
	if s.Remaining != nil {
		status.EstimatedCompletionTime = seconds(now.Add(*s.Remaining))
	}
	return status.DeepCopy()
}

// seconds returns a time that is truncated to seconds, as the API server stores it.
func seconds(t time.Time) *metav1.Time { return new(metav1.NewTime(t).Rfc3339Copy()) }

// summary returns the progress in percent and in steps, for example 42% (420/1000).
func (s State) summary() string {
	steps := ""
	switch {
	case s.Step != nil && s.TotalSteps != nil:
		steps = fmt.Sprintf("%d/%d", *s.Step, *s.TotalSteps)
	case s.Step != nil:
		steps = fmt.Sprintf("step %d", *s.Step)
	}
	switch {
	case s.Percent == nil:
		return steps
	case steps == "":
		return fmt.Sprintf("%d%%", *s.Percent)
	}
	return fmt.Sprintf("%d%% (%s)", *s.Percent, steps)
}

// Tracker merges the reports of a program into a State. It is safe for concurrent use.
type Tracker struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// state has the fields that do not depend on the current time.
	state State
	// reported and progressed are the times of the last report and of the last progress. Without a report, progressed is
	// when the tracker was created.
	reported, progressed time.Time
	// silentUntil is the end of the announced silence. Zero means none.
	silentUntil time.Time
	// started is when the processes last started again. Zero means that they have not, or that there was a report since.
	started time.Time
	// first is the step from which the speed is measured. The field began is the time of that step. The zero time means
	// that the next step replaces that step.
	first int64
	began time.Time
}

// NewTracker returns a tracker without reports.
func NewTracker(c clock.PassiveClock) *Tracker { return &Tracker{clock: c, progressed: c.Now()} }

// Add merges a report. A field that the report lacks keeps its last value. A metric replaces the metric of the same
// name. If there are too many metrics, Add prefers the metrics of the report. A start does not change the reported
// fields.
func (t *Tracker) Add(r Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if r.IsStart {
		t.started, t.began = now, time.Time{}
		return
	}
	t.reported = now
	if t.isProgress(r) {
		t.progressed, t.silentUntil = now, time.Time{}
	}
	t.started = time.Time{}
	if r.Silence > 0 {
		t.silentUntil = now.Add(r.Silence)
	}
	if r.Step != nil && (t.began.IsZero() || *r.Step < *t.state.Step) {
		t.first, t.began = *r.Step, now
	}
	t.state.merge(r)
}

// isProgress reports whether the report is progress, compared with the state so far.
func (t *Tracker) isProgress(r Report) bool {
	s := t.state
	return s.Reports == 0 || !t.started.IsZero() ||
		r.Step != nil && !ptr.Equal(r.Step, s.Step) ||
		r.Step == nil && s.Step == nil && r.Percent != nil && !ptr.Equal(r.Percent, s.Percent)
}

// merge merges the fields of a report into the state.
func (s *State) merge(r Report) {
	s.Reports++
	s.Step, s.TotalSteps = cmp.Or(r.Step, s.Step), cmp.Or(r.TotalSteps, s.TotalSteps)
	s.Percent = cmp.Or(r.Percent, s.Percent)
	if r.Percent == nil && (r.Step != nil || r.TotalSteps != nil) && s.Step != nil && s.TotalSteps != nil {
		s.Percent = new(int32(min(100, *s.Step*100 / *s.TotalSteps))) //nolint:gosec // it is at most 100
	}
	metrics := map[string]string{}
	for _, list := range [][]batchv1beta1.ProgressMetric{r.Metrics, s.Metrics} {
		for _, m := range list {
			if _, isNewer := metrics[m.Name]; !isNewer && len(metrics) < MaxMetrics {
				metrics[m.Name] = m.Value
			}
		}
	}
	s.Metrics = sorted(metrics)
}

// State returns the current state.
func (t *Tracker) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.state, t.clock.Now()
	s.SinceProgress = age(now, t.progressed)
	if !t.started.IsZero() {
		s.SinceStart = new(age(now, t.started))
	}
	if s.Reports == 0 {
		return s
	}
	s.SinceReport = age(now, t.reported)
	s.AnnouncedSilence = max(0, t.silentUntil.Sub(now))
	s.Remaining = t.remaining(now)
	return s
}

// Reports returns the number of reports so far.
func (t *Tracker) Reports() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.Reports
}

// age returns the time that has passed between the two times, limited to the range from 0 to MaxAge.
func age(now, then time.Time) time.Duration { return min(MaxAge, max(0, now.Sub(then))) }

// remaining returns the estimated time until the last step. Nil means unknown, or more than MaxAge.
func (t *Tracker) remaining(now time.Time) *time.Duration {
	s, took := t.state, t.progressed.Sub(t.began)
	if t.began.IsZero() || s.TotalSteps == nil || *s.Step <= t.first || took <= 0 {
		return nil
	}
	perStep := float64(took) / float64(*s.Step-t.first)
	left := perStep*float64(max(0, *s.TotalSteps-*s.Step)) - float64(now.Sub(t.progressed))
	if left > float64(MaxAge) {
		return nil
	}
	return new(time.Duration(max(0, left)))
}
