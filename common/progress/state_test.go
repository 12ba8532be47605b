package progress

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// at returns a report with a step.
func at(step int64) Report { return Report{Step: &step} }

// of returns a report with a step and the number of all steps.
func of(step, total int64) Report { return Report{Step: &step, TotalSteps: &total} }

// done returns a report with a percentage.
func done(percent int32) Report { return Report{Percent: &percent} }

func TestTracker(t *testing.T) {
	t.Parallel()
	// add is a call of Tracker.Add. The duration after is the time since the previous call.
	type add struct {
		after  time.Duration
		report Report
	}
	silent := func(r Report, silence time.Duration) Report {
		r.Silence = silence
		return r
	}
	with := func(metrics ...batchv1beta1.ProgressMetric) Report { return Report{Metrics: metrics} }
	start := Report{IsStart: true}
	for name, tc := range map[string]struct {
		adds []add
		wait time.Duration
		want State
	}{
		"without reports, the state has only the time since the start": {
			wait: time.Hour, want: State{SinceProgress: time.Hour},
		},
		"a field that a report lacks keeps its value": {
			adds: []add{{0, of(420, 1000)}, {time.Second, with(metric("loss", "1"))}},
			wait: time.Second,
			want: State{
				Reports: 2, Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
				Metrics:     []batchv1beta1.ProgressMetric{metric("loss", "1")},
				SinceReport: time.Second, SinceProgress: 2 * time.Second,
			},
		},
		"a metric replaces the one of the same name": {
			adds: []add{{0, with(metric("a", "1"), metric("b", "1"))}, {0, with(metric("b", "2"), metric("c", "2"))}},
			want: State{
				Reports: 2, Metrics: []batchv1beta1.ProgressMetric{metric("a", "1"), metric("b", "2"), metric("c", "2")},
			},
		},
		"the same step is no progress": {
			adds: []add{{0, at(1)}, {time.Minute, at(1)}}, wait: time.Second,
			want: State{Reports: 2, Step: ptr.To[int64](1), SinceReport: time.Second, SinceProgress: time.Minute + time.Second},
		},
		"another step is progress": {
			adds: []add{{0, at(1)}, {time.Minute, at(2)}}, wait: time.Second,
			want: State{Reports: 2, Step: ptr.To[int64](2), SinceReport: time.Second, SinceProgress: time.Second},
		},
		"a smaller step is progress": {
			adds: []add{{0, at(2)}, {time.Minute, at(1)}}, wait: time.Second,
			want: State{Reports: 2, Step: ptr.To[int64](1), SinceReport: time.Second, SinceProgress: time.Second},
		},
		"another percentage is progress if no step was reported": {
			adds: []add{{0, done(1)}, {time.Minute, done(2)}}, wait: time.Second,
			want: State{Reports: 2, Percent: ptr.To[int32](2), SinceReport: time.Second, SinceProgress: time.Second},
		},
		"the same percentage is no progress": {
			adds: []add{{0, done(1)}, {time.Minute, done(1)}}, wait: time.Second,
			want: State{
				Reports: 2, Percent: ptr.To[int32](1), SinceReport: time.Second, SinceProgress: time.Minute + time.Second,
			},
		},
		"another percentage is no progress after a step": {
			adds: []add{{0, at(1)}, {time.Minute, done(9)}},
			want: State{Reports: 2, Percent: ptr.To[int32](9), Step: ptr.To[int64](1), SinceProgress: time.Minute},
		},
		"other metrics are no progress": {
			adds: []add{{0, with(metric("a", "1"))}, {time.Minute, with(metric("a", "2"))}},
			want: State{
				Reports: 2, Metrics: []batchv1beta1.ProgressMetric{metric("a", "2")}, SinceProgress: time.Minute,
			},
		},
		"a reported percentage is kept": {
			adds: []add{{0, Report{Percent: ptr.To[int32](99), Step: ptr.To[int64](1), TotalSteps: ptr.To[int64](2)}}},
			want: State{Reports: 1, Percent: ptr.To[int32](99), Step: ptr.To[int64](1), TotalSteps: ptr.To[int64](2)},
		},
		"a percentage from the steps is rounded down": {
			adds: []add{{0, of(999, 1000)}},
			want: State{Reports: 1, Percent: ptr.To[int32](99), Step: ptr.To[int64](999), TotalSteps: ptr.To[int64](1000)},
		},
		"a percentage from the steps is at most 100": {
			adds: []add{{0, of(MaxStep, 1)}},
			want: State{Reports: 1, Percent: ptr.To[int32](100), Step: ptr.To[int64](MaxStep), TotalSteps: ptr.To[int64](1)},
		},
		"the percentage follows from a number of steps that is reported later": {
			adds: []add{{0, at(1)}, {0, Report{TotalSteps: ptr.To[int64](4)}}},
			want: State{Reports: 2, Percent: ptr.To[int32](25), Step: ptr.To[int64](1), TotalSteps: ptr.To[int64](4)},
		},
		"the remaining time follows from the average speed": {
			adds: []add{{0, of(10, 100)}, {10 * time.Second, at(12)}, {10 * time.Second, at(20)}}, wait: 5 * time.Second,
			want: State{
				Reports: 3, Percent: ptr.To[int32](20), Step: ptr.To[int64](20), TotalSteps: ptr.To[int64](100),
				SinceReport: 5 * time.Second, SinceProgress: 5 * time.Second, Remaining: ptr.To(155 * time.Second),
			},
		},
		"the speed is measured again after the step went back": {
			adds: []add{{0, of(50, 100)}, {time.Hour, at(60)}, {0, at(50)}, {time.Minute, at(60)}},
			want: State{
				Reports: 4, Percent: ptr.To[int32](60), Step: ptr.To[int64](60), TotalSteps: ptr.To[int64](100),
				Remaining: ptr.To(4 * time.Minute),
			},
		},
		"the remaining time is not negative": {
			adds: []add{{0, of(1, 3)}, {time.Second, at(2)}}, wait: time.Hour,
			want: State{
				Reports: 2, Percent: ptr.To[int32](66), Step: ptr.To[int64](2), TotalSteps: ptr.To[int64](3),
				SinceReport: time.Hour, SinceProgress: time.Hour, Remaining: ptr.To[time.Duration](0),
			},
		},
		"no time remains after the last step": {
			adds: []add{{0, of(1, 3)}, {time.Second, at(4)}},
			want: State{
				Reports: 2, Percent: ptr.To[int32](100), Step: ptr.To[int64](4), TotalSteps: ptr.To[int64](3),
				Remaining: ptr.To[time.Duration](0),
			},
		},
		"the remaining time is unknown if all steps were reported at the same time": {
			adds: []add{{0, of(1, 3)}, {0, at(2)}},
			want: State{Reports: 2, Percent: ptr.To[int32](66), Step: ptr.To[int64](2), TotalSteps: ptr.To[int64](3)},
		},
		"the remaining time is unknown if it is absurd": {
			adds: []add{{0, of(1, MaxStep)}, {time.Second, at(2)}},
			want: State{Reports: 2, Percent: ptr.To[int32](0), Step: ptr.To[int64](2), TotalSteps: ptr.To[int64](MaxStep)},
		},
		"a start is no report, and the next report is progress": {
			adds: []add{{0, at(1)}, {time.Minute, start}, {time.Minute, with(metric("loss", "1"))}},
			wait: time.Second,
			want: State{
				Reports: 2, Step: ptr.To[int64](1), Metrics: []batchv1beta1.ProgressMetric{metric("loss", "1")},
				SinceReport: time.Second, SinceProgress: time.Second,
			},
		},
		"a start lasts until the next report, and does not end an announced silence": {
			adds: []add{{0, silent(at(1), time.Hour)}, {time.Minute, start}}, wait: time.Minute,
			want: State{
				Reports: 1, Step: ptr.To[int64](1), SinceReport: 2 * time.Minute, SinceProgress: 2 * time.Minute,
				AnnouncedSilence: 58 * time.Minute, SinceStart: ptr.To(time.Minute),
			},
		},
		"the last start counts, also before the first report": {
			adds: []add{{0, start}, {time.Minute, start}}, wait: time.Second,
			want: State{SinceProgress: time.Minute + time.Second, SinceStart: ptr.To(time.Second)},
		},
		"the remaining time is unknown after a start": {
			adds: []add{{0, of(1, 10)}, {time.Second, at(2)}, {0, start}},
			want: State{
				Reports: 2, Percent: ptr.To[int32](20), Step: ptr.To[int64](2), TotalSteps: ptr.To[int64](10),
				SinceStart: new(time.Duration),
			},
		},
		"the time before the first step after a start does not count for the speed": {
			adds: []add{
				{0, of(1, 10)},
				{time.Hour, start},
				{time.Hour, with(metric("loss", "1"))},
				{time.Hour, at(5)},
				{time.Second, at(6)},
			},
			want: State{
				Reports: 4, Percent: ptr.To[int32](60), Step: ptr.To[int64](6), TotalSteps: ptr.To[int64](10),
				Metrics: []batchv1beta1.ProgressMetric{metric("loss", "1")}, Remaining: ptr.To(4 * time.Second),
			},
		},
		"an announced silence begins with its report": {
			adds: []add{{0, silent(at(1), time.Hour)}}, wait: 10 * time.Minute,
			want: State{
				Reports: 1, Step: ptr.To[int64](1), SinceReport: 10 * time.Minute, SinceProgress: 10 * time.Minute,
				AnnouncedSilence: 50 * time.Minute,
			},
		},
		"a report that is no progress does not end the silence": {
			adds: []add{{0, at(1)}, {0, silent(Report{}, time.Hour)}, {time.Minute, at(1)}},
			want: State{
				Reports: 3, Step: ptr.To[int64](1), SinceProgress: time.Minute, AnnouncedSilence: 59 * time.Minute,
			},
		},
		"the last announcement counts": {
			adds: []add{{0, silent(at(1), time.Hour)}, {time.Minute, silent(at(1), time.Minute)}},
			want: State{Reports: 2, Step: ptr.To[int64](1), SinceProgress: time.Minute, AnnouncedSilence: time.Minute},
		},
		"progress ends the silence": {
			adds: []add{{0, silent(at(1), time.Hour)}, {0, at(2)}},
			want: State{Reports: 2, Step: ptr.To[int64](2)},
		},
		"progress can announce the next silence": {
			adds: []add{{0, silent(at(1), time.Hour)}, {0, silent(at(2), time.Minute)}},
			want: State{Reports: 2, Step: ptr.To[int64](2), AnnouncedSilence: time.Minute},
		},
		"a silence ends": {
			adds: []add{{0, silent(at(1), time.Hour)}}, wait: 2 * time.Hour,
			want: State{Reports: 1, Step: ptr.To[int64](1), SinceReport: 2 * time.Hour, SinceProgress: 2 * time.Hour},
		},
		"the ages are limited": {
			adds: []add{{0, at(1)}}, wait: 2 * MaxAge,
			want: State{Reports: 1, Step: ptr.To[int64](1), SinceReport: MaxAge, SinceProgress: MaxAge},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := clocktesting.NewFakePassiveClock(noon)
			now := noon
			tracker := NewTracker(fake)
			for _, add := range tc.adds {
				now = now.Add(add.after)
				fake.SetTime(now)
				tracker.Add(add.report)
			}
			fake.SetTime(now.Add(tc.wait))
			got := tracker.State()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
			// The controller accepts each state.
			read, err := parsed(t, got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, read); diff != "" {
				t.Errorf("the controller reads another state (-want +got):\n%s", diff)
			}
		})
	}
}

// parsed parses the JSON of a state.
func parsed(t *testing.T, s State) (State, error) {
	t.Helper()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return ParseState(body)
}

func TestTheMetricsOfTheLastReportAreKept(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(clocktesting.NewFakePassiveClock(noon))
	for _, prefix := range []string{"a", "b"} {
		var r Report
		for i := range MaxMetrics - 1 {
			r.Metrics = append(r.Metrics, metric(fmt.Sprintf("%s%02d", prefix, i), "1"))
		}
		tracker.Add(r)
	}
	got := tracker.State().Metrics
	if len(got) != MaxMetrics || got[0].Name != "a00" || got[1].Name != "b00" {
		t.Errorf("the metrics are %v, want a00 and all metrics b", got)
	}
}

// largest returns the state with the largest JSON.
func largest() State {
	s := State{
		Reports: math.MaxInt64, Percent: ptr.To[int32](100), Step: ptr.To[int64](MaxStep), TotalSteps: ptr.To[int64](MaxStep),
		SinceReport: MaxAge, SinceProgress: MaxAge, AnnouncedSilence: MaxSilence, Remaining: new(MaxAge),
	}
	for i := range MaxMetrics {
		name := strings.Repeat("x", MaxMetricName-2) + fmt.Sprintf("%02d", i)
		s.Metrics = append(s.Metrics, metric(name, format(-1.2345678901234567e-6)))
	}
	return s
}

func TestTheLargestStateFitsIntoATerminationMessage(t *testing.T) {
	t.Parallel()
	s := largest()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if most := 2 << 10; len(body) > most {
		t.Errorf("the state has %d bytes, want at most %d: %s", len(body), most, body)
	}
	got, err := ParseState(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("unexpected state (-want +got):\n%s", diff)
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	outside := func(field string, least, most int64) string {
		return fmt.Sprintf("the field %q of the state must be from %d to %d", field, least, most)
	}
	const (
		otherForm = "the state does not have the JSON form of a receiver"
		badMetric = `the field "metrics" of the state has an invalid metric`
		year10    = 315360000000
	)
	var many []string
	for i := range MaxMetrics + 1 {
		many = append(many, fmt.Sprintf(`"m%d": "1"`, i))
	}
	for name, tc := range map[string]struct {
		body    string
		want    State
		wantErr string
	}{
		"all fields are read": {
			body: `{"reports": 7, "percent": 42, "step": 420, "totalSteps": 1000, "metrics": {"loss": "0.31"}, ` +
				`"sinceReportMilliseconds": 1500, "sinceProgressMilliseconds": 2000, "announcedSilenceMilliseconds": 3000, ` +
				`"remainingMilliseconds": 4000, "sinceStartMilliseconds": 5000}`,
			want: State{
				Reports: 7, Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
				Metrics:     []batchv1beta1.ProgressMetric{metric("loss", "0.31")},
				SinceReport: 1500 * time.Millisecond, SinceProgress: 2 * time.Second, AnnouncedSilence: 3 * time.Second,
				Remaining: ptr.To(4 * time.Second), SinceStart: ptr.To(5 * time.Second),
			},
		},
		"fields of a newer receiver are ignored": {body: `{"reports": 1, "new": {}}`, want: State{Reports: 1}},
		"a state without reports is empty":       {body: `{"reports": 0, "percent": 1000, "step": -1}`},
		"the value of a metric gets its shortest form": {
			body: `{"reports": 1, "metrics": {"a": "` + strings.Repeat("0", 100) + `1.50"}}`,
			want: State{Reports: 1, Metrics: []batchv1beta1.ProgressMetric{metric("a", "1.5")}},
		},

		"text that is not JSON is an error":   {body: `panic: secret`, wantErr: otherForm},
		"an empty state is an error":          {body: ``, wantErr: otherForm},
		"a percentage of a type is an error":  {body: `{"reports": 1, "percent": "1"}`, wantErr: otherForm},
		"a percentage of an int64 is invalid": {body: `{"reports": 1, "percent": 4294967297}`, wantErr: otherForm},
		"a negative number of reports is an error": {
			body: `{"reports": -1}`, wantErr: outside("reports", 0, math.MaxInt64),
		},
		"a percentage above 100 is an error": {body: `{"reports": 1, "percent": 101}`, wantErr: outside("percent", 0, 100)},
		"a negative percentage is an error":  {body: `{"reports": 1, "percent": -1}`, wantErr: outside("percent", 0, 100)},
		"a negative step is an error":        {body: `{"reports": 1, "step": -1}`, wantErr: outside("step", 0, MaxStep)},
		"a step that is too large is an error": {
			body: `{"reports": 1, "step": 9007199254740993}`, wantErr: outside("step", 0, MaxStep),
		},
		"a total of 0 steps is an error": {
			body: `{"reports": 1, "totalSteps": 0}`, wantErr: outside("totalSteps", 1, MaxStep),
		},
		"a total that is too large is an error": {
			body: `{"reports": 1, "totalSteps": 9007199254740993}`, wantErr: outside("totalSteps", 1, MaxStep),
		},
		"a negative age of the report is an error": {
			body: `{"reports": 1, "sinceReportMilliseconds": -1}`, wantErr: outside("sinceReportMilliseconds", 0, year10),
		},
		"an absurd age of the report is an error": {
			body:    `{"reports": 1, "sinceReportMilliseconds": 9223372036854775807}`,
			wantErr: outside("sinceReportMilliseconds", 0, year10),
		},
		"a negative age of the progress is an error": {
			body: `{"reports": 1, "sinceProgressMilliseconds": -1}`, wantErr: outside("sinceProgressMilliseconds", 0, year10),
		},
		"an absurd age of the progress is an error": {
			body:    `{"reports": 1, "sinceProgressMilliseconds": 315360000001}`,
			wantErr: outside("sinceProgressMilliseconds", 0, year10),
		},
		"a negative silence is an error": {
			body:    `{"reports": 1, "announcedSilenceMilliseconds": -1}`,
			wantErr: outside("announcedSilenceMilliseconds", 0, 86400000),
		},
		"a silence of more than a day is an error": {
			body:    `{"reports": 1, "announcedSilenceMilliseconds": 86400001}`,
			wantErr: outside("announcedSilenceMilliseconds", 0, 86400000),
		},
		"a negative remaining time is an error": {
			body: `{"reports": 1, "remainingMilliseconds": -1}`, wantErr: outside("remainingMilliseconds", 0, year10),
		},
		"an absurd remaining time is an error": {
			body: `{"reports": 1, "remainingMilliseconds": 315360000001}`, wantErr: outside("remainingMilliseconds", 0, year10),
		},
		"too many metrics are an error": {
			body: `{"reports": 1, "metrics": {` + strings.Join(many, ",") + `}}`, wantErr: outside("metrics", 0, MaxMetrics),
		},
		"a metric with an invalid name is an error": {
			body: `{"reports": 1, "metrics": {"<b>": "1"}}`, wantErr: badMetric,
		},
		"a metric that is no number is an error": {
			body: `{"reports": 1, "metrics": {"a": "secret"}}`, wantErr: badMetric,
		},
		"a state that is too large is an error": {
			body: `{"reports": 1}` + strings.Repeat(" ", MaxBody), wantErr: "the state has more than 16384 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseState([]byte(tc.body))
			if diff := cmp.Diff(tc.wantErr, message(err)); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseState(f *testing.F) {
	restarts := Restarts{Count: 1, Last: []Restart{{Replica: "a", Rank: new(int32), Code: ptr.To[int32](-9), Since: 1}}}
	for _, s := range []State{{}, {Reports: 1, SinceReport: time.Second}, largest(), {Restarts: restarts}} {
		body, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"reports": 1, "metrics": {"a": "0x1p-2", "b": "1e5"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ParseState(body)
		if err != nil {
			s = State{}
		}
		checkNumbers(t, s.Percent, s.Step, s.TotalSteps)
		checkMetrics(t, s.Metrics)
		for name, limited := range map[string]struct{ got, most time.Duration }{
			"time since the report":   {s.SinceReport, MaxAge},
			"time since the progress": {s.SinceProgress, MaxAge},
			"announced silence":       {s.AnnouncedSilence, MaxSilence},
			"remaining time":          {ptr.Deref(s.Remaining, 0), MaxAge},
			"time since the start":    {ptr.Deref(s.SinceStart, 0), MaxAge},
		} {
			if limited.got < 0 || limited.got > limited.most {
				t.Errorf("the %s is %s, want 0 to %s", name, limited.got, limited.most)
			}
		}
		again, err := parsed(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("the state changes if it is written and read again (-want +got):\n%s", diff)
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	stamp := func(after time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(after))) }
	for name, tc := range map[string]struct {
		state State
		want  *batchv1beta1.ProgressStatus
	}{
		"without reports, there is no status": {},
		"all fields are set": {
			State{
				Reports: 3, Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
				Metrics: []batchv1beta1.ProgressMetric{metric("a", "1")}, SinceReport: 1500 * time.Millisecond,
				Remaining: ptr.To(90 * time.Second),
			},
			&batchv1beta1.ProgressStatus{
				Summary: "42% (420/1000)", Percent: ptr.To[int32](42), Step: ptr.To[int64](420),
				TotalSteps: ptr.To[int64](1000), Metrics: []batchv1beta1.ProgressMetric{metric("a", "1")},
				LastReportTime: stamp(-time.Second), EstimatedCompletionTime: stamp(90 * time.Second), Replica: "worker-0",
			},
		},
		"the summary can have only a percentage": {
			State{Reports: 1, Percent: ptr.To[int32](42), TotalSteps: ptr.To[int64](9)},
			&batchv1beta1.ProgressStatus{
				Summary: "42%", Percent: ptr.To[int32](42), TotalSteps: ptr.To[int64](9), LastReportTime: stamp(0),
				Replica: "worker-0",
			},
		},
		"the summary can have only a step": {
			State{Reports: 1, Step: ptr.To[int64](420)},
			&batchv1beta1.ProgressStatus{
				Summary: "step 420", Step: ptr.To[int64](420), LastReportTime: stamp(0), Replica: "worker-0",
			},
		},
		"the summary can have a percentage and a step": {
			State{Reports: 1, Percent: ptr.To[int32](42), Step: ptr.To[int64](420)},
			&batchv1beta1.ProgressStatus{
				Summary: "42% (step 420)", Percent: ptr.To[int32](42), Step: ptr.To[int64](420), LastReportTime: stamp(0),
				Replica: "worker-0",
			},
		},
		"the summary of metrics is empty": {
			State{Reports: 1, Metrics: []batchv1beta1.ProgressMetric{metric("a", "1")}},
			&batchv1beta1.ProgressStatus{
				Metrics: []batchv1beta1.ProgressMetric{metric("a", "1")}, LastReportTime: stamp(0), Replica: "worker-0",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.state.Status(noon.Add(999*time.Millisecond), "worker-0")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected status (-want +got):\n%s", diff)
			}
		})
	}
}
