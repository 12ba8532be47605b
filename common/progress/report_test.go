package progress

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// metric returns a metric.
func metric(name, value string) batchv1beta1.ProgressMetric {
	return batchv1beta1.ProgressMetric{Name: name, Value: value}
}

// message returns the message of an error. Empty means no error.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParse(t *testing.T) {
	t.Parallel()
	const (
		badStep    = `the field "step" of the report must be an integer from 0 to 9007199254740992`
		badTotal   = `the field "totalSteps" of the report must be an integer from 1 to 9007199254740992`
		badPercent = `the field "percent" of the report must be a number from 0 to 100`
		badStart   = `the field "starting" of the report must be true`
		badSilence = `the field "silenceSeconds" of the report must be a number from 0 to 86400`
		badMetrics = `the field "metrics" of the report must be an object such as {"loss": 0.31}`
		empty      = "the report is empty: send at least one of step, totalSteps, percent, metrics, silenceSeconds, starting"
		notObject  = `the report is not a JSON object such as {"step": 420}`
		nameRule   = ": a name has 1 to 64 letters, digits or characters of _.:/@-"
	)
	long := strings.Repeat("x", MaxMetricName+1)
	for name, tc := range map[string]struct {
		body    string
		want    Report
		wantErr string
	}{
		"all fields are read": {
			body: `{"step": 420, "totalSteps": 1000, "percent": 42, "metrics": {"loss": 0.31}, "silenceSeconds": 1800}`,
			want: Report{
				Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
				Metrics: []batchv1beta1.ProgressMetric{metric("loss", "0.31")}, Silence: 30 * time.Minute,
			},
		},
		"one field is sufficient":       {body: `{"step": 0}`, want: Report{Step: ptr.To[int64](0)}},
		"a step can be a float":         {body: `{"step": 420.0}`, want: Report{Step: ptr.To[int64](420)}},
		"a step can be a string":        {body: `{"step": "420"}`, want: Report{Step: ptr.To[int64](420)}},
		"a percentage is rounded down":  {body: `{"percent": 99.9}`, want: Report{Percent: ptr.To[int32](99)}},
		"a field that is null is unset": {body: `{"step": 1, "percent": null}`, want: Report{Step: ptr.To[int64](1)}},
		"the largest step is valid":     {body: `{"step": 9007199254740992}`, want: Report{Step: ptr.To[int64](MaxStep)}},
		"a silence can have fractions of a second": {
			body: `{"silenceSeconds": 0.5}`, want: Report{Silence: time.Second / 2},
		},
		"a start is the only field": {body: `{"starting": true}`, want: Report{IsStart: true}},
		"a metric that is null is unset": {
			body: `{"metrics": {"a": null, "b": 1}}`, want: Report{Metrics: []batchv1beta1.ProgressMetric{metric("b", "1")}},
		},
		"metrics are sorted and have short values": {
			body: `{"metrics": {"lr": 1e-05, "eval/loss": 0.9111111164093018, "big": 1e300, "tokens": 123456789, "zero": 0}}`,
			want: Report{Metrics: []batchv1beta1.ProgressMetric{
				metric("big", "1e+300"), metric("eval/loss", "0.911111"), metric("lr", "1e-05"), metric("tokens", "123456789"),
				metric("zero", "0"),
			}},
		},
		"metrics can be strings with the numbers that JSON lacks": {
			body: `{"metrics": {"a": "nan", "b": "inf", "c": "-Infinity"}}`,
			want: Report{Metrics: []batchv1beta1.ProgressMetric{metric("a", "NaN"), metric("b", "+Inf"), metric("c", "-Inf")}},
		},
		"metrics can be the bare words that Python writes": {
			body: `{"metrics": {"NaN": NaN, "b": Infinity, "c": -Infinity}}`,
			want: Report{Metrics: []batchv1beta1.ProgressMetric{
				metric("NaN", "NaN"), metric("b", "+Inf"), metric("c", "-Inf"),
			}},
		},

		"an empty report is an error":                  {body: `{}`, wantErr: empty},
		"a report with only null is an error":          {body: `{"step": null}`, wantErr: empty},
		"null is an error":                             {body: `null`, wantErr: empty},
		"a list is an error":                           {body: `[1]`, wantErr: notObject},
		"half a report is an error":                    {body: `{"step": 4`, wantErr: notObject},
		"two reports on one line are an error":         {body: `{"step": 4}{"step": 5}`, wantErr: notObject},
		"a bare word within a number is an error":      {body: `{"step": 1NaN}`, wantErr: notObject},
		"a negative step is an error":                  {body: `{"step": -1}`, wantErr: badStep},
		"a step with a fraction is an error":           {body: `{"step": 1.5}`, wantErr: badStep},
		"a step that is too large is an error":         {body: `{"step": 9007199254740994}`, wantErr: badStep},
		"a step that is not a number is an error":      {body: `{"step": NaN}`, wantErr: badStep},
		"a step that is a bool is an error":            {body: `{"step": true}`, wantErr: badStep},
		"a total of 0 steps is an error":               {body: `{"totalSteps": 0}`, wantErr: badTotal},
		"a percentage above 100 is an error":           {body: `{"percent": 100.1}`, wantErr: badPercent},
		"a negative percentage is an error":            {body: `{"percent": -1}`, wantErr: badPercent},
		"a percentage that is not a number is invalid": {body: `{"percent": "NaN"}`, wantErr: badPercent},
		"a silence of more than a day is an error":     {body: `{"silenceSeconds": 86401}`, wantErr: badSilence},
		"a negative silence is an error":               {body: `{"silenceSeconds": -1}`, wantErr: badSilence},
		"a start that is not true is an error":         {body: `{"starting": false}`, wantErr: badStart},
		"a start that is a number is an error":         {body: `{"starting": 1}`, wantErr: badStart},
		"a start with another field is an error": {
			body: `{"starting": true, "step": 420}`, wantErr: `the field "starting" of the report must be the only one`,
		},
		"metrics in a list are an error": {body: `{"metrics": []}`, wantErr: badMetrics},
		"an error names an unknown field": {
			body: `{"Step": 1}`,
			wantErr: `the field "Step" of the report is unknown: the fields are step, totalSteps, percent, metrics, ` +
				`silenceSeconds, starting`,
		},
		"an error does not contain all of a long name": {
			body: `{"` + long + `": 1}`,
			wantErr: fmt.Sprintf("the field %q of the report is unknown: the fields are step, totalSteps, percent, metrics, "+
				"silenceSeconds, starting", long[1:]),
		},
		"an unknown field that is null is an error": {
			body: `{"steps": null}`,
			wantErr: `the field "steps" of the report is unknown: the fields are step, totalSteps, percent, metrics, ` +
				`silenceSeconds, starting`,
		},
		"a metric with an invalid name is an error": {
			body: `{"metrics": {"a b": 1}}`, wantErr: `the field "metrics" of the report has a metric with the name "a b"` + nameRule,
		},
		"a metric without a name is an error": {
			body: `{"metrics": {"": 1}}`, wantErr: `the field "metrics" of the report has a metric with the name ""` + nameRule,
		},
		"a metric that is no number is an error": {
			body:    `{"metrics": {"loss": "secret"}}`,
			wantErr: `the field "metrics" of the report has a metric "loss" that is not a number`,
		},
		"a metric beyond the range of a float is an error": {
			body:    `{"metrics": {"loss": 1e999}}`,
			wantErr: `the field "metrics" of the report has a metric "loss" that is not a number`,
		},
		"a report that is too large is an error": {
			body: `{"step": 1}` + strings.Repeat(" ", MaxBody), wantErr: "the report has more than 16384 bytes: send fewer metrics",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tc.body))
			if diff := cmp.Diff(tc.wantErr, message(err)); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParseOfKubeflow has the reports that the KubeflowCallback of Hugging Face Transformers sends.
func TestParseOfKubeflow(t *testing.T) {
	t.Parallel()
	const (
		empty     = "the report is empty: send at least one of step, totalSteps, percent, metrics, silenceSeconds, starting"
		otherForm = `the field "trainerStatus" of the report does not have the form of Kubeflow Trainer`
	)
	for name, tc := range map[string]struct {
		body    string
		want    Report
		wantErr string
	}{
		"the report at the start has the number of steps": {
			body: `{"trainerStatus": {"lastUpdatedTime": "2026-11-26T10:50:48.123456+00:00", "progressPercentage": 0, ` +
				`"metrics": [{"name": "total_steps", "value": "1000"}]}}`,
			want: Report{Percent: ptr.To[int32](0), TotalSteps: ptr.To[int64](1000)},
		},
		"the report after a step has the step": {
			body: `{"trainerStatus": {"lastUpdatedTime": "2026-11-26T10:50:48.123456+00:00", "progressPercentage": 42, ` +
				`"estimatedRemainingSeconds": 7, "metrics": [{"name": "loss", "value": "0.31"}, ` +
				`{"name": "grad_norm", "value": "nan"}, {"name": "learning_rate", "value": "4.9e-05"}, ` +
				`{"name": "current_step", "value": "420"}, {"name": "total_steps", "value": "1000"}, ` +
				`{"name": "current_epoch", "value": "0.42"}]}}`,
			want: Report{
				Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
				Metrics: []batchv1beta1.ProgressMetric{
					metric("current_epoch", "0.42"), metric("grad_norm", "NaN"), metric("learning_rate", "4.9e-05"),
					metric("loss", "0.31"),
				},
			},
		},
		"the report at the end has only metrics of the log": {
			body: `{"trainerStatus": {"lastUpdatedTime": "2026-11-26T10:50:48.123456+00:00", "progressPercentage": 100, ` +
				`"estimatedRemainingSeconds": 0, "metrics": [{"name": "train_loss", "value": "0.2"}]}}`,
			want: Report{Percent: ptr.To[int32](100), Metrics: []batchv1beta1.ProgressMetric{metric("train_loss", "0.2")}},
		},
		"an unknown number of steps is not reported": {
			body: `{"trainerStatus": {"progressPercentage": 0, "metrics": [{"name": "total_steps", "value": "-1"}]}}`,
			want: Report{Percent: ptr.To[int32](0)},
		},
		"an invalid metric is dropped": {
			body: `{"trainerStatus": {"metrics": [{"name": "ok", "value": 1}, {"name": "a b", "value": "1"}, ` +
				`{"name": "bool", "value": "True"}, {"name": "none"}, {"name": "", "value": "1"}]}}`,
			want: Report{Metrics: []batchv1beta1.ProgressMetric{metric("ok", "1")}},
		},
		"the last metric of a name counts": {
			body: `{"trainerStatus": {"metrics": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}}`,
			want: Report{Metrics: []batchv1beta1.ProgressMetric{metric("a", "2")}},
		},
		"a percentage above 100 counts as 100": {
			body: `{"trainerStatus": {"progressPercentage": 1e9}}`, want: Report{Percent: ptr.To[int32](100)},
		},
		"a negative percentage counts as 0": {
			body: `{"trainerStatus": {"progressPercentage": -3}}`, want: Report{Percent: ptr.To[int32](0)},
		},
		"unknown fields are ignored": {
			body: `{"other": 1, "trainerStatus": {"progressPercentage": 1, "phase": {}}}`,
			want: Report{Percent: ptr.To[int32](1)},
		},
		"a percentage that is not a number is an empty report": {
			body: `{"trainerStatus": {"progressPercentage": NaN}}`, wantErr: empty,
		},
		"a report with only the time is an error": {body: `{"trainerStatus": {"lastUpdatedTime": "now"}}`, wantErr: empty},
		"a status of another type is an error":    {body: `{"trainerStatus": "secret"}`, wantErr: otherForm},
		"metrics of another type are an error":    {body: `{"trainerStatus": {"metrics": {}}}`, wantErr: otherForm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tc.body))
			if diff := cmp.Diff(tc.wantErr, message(err)); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseKeepsTheFirstMetricsByName(t *testing.T) {
	t.Parallel()
	var own, kubeflow []string
	var want []batchv1beta1.ProgressMetric
	for i := range MaxMetrics + 5 {
		name := fmt.Sprintf("m%02d", i)
		own = append(own, fmt.Sprintf("%q: 1", name))
		kubeflow = append(kubeflow, fmt.Sprintf(`{"name": %q, "value": "1"}`, name))
		want = append(want, metric(name, "1"))
	}
	// Parse reads the number of steps, although total_steps is not among the first MaxMetrics metrics by name.
	kubeflow = append(kubeflow, `{"name": "total_steps", "value": "9"}`)
	for name, body := range map[string]string{
		"own form":         `{"totalSteps": 9, "metrics": {` + strings.Join(own, ",") + `}}`,
		"form of Kubeflow": `{"trainerStatus": {"metrics": [` + strings.Join(kubeflow, ",") + `]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Report{TotalSteps: ptr.To[int64](9), Metrics: want[:MaxMetrics]}, got); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesOfMetricsAreShort(t *testing.T) {
	t.Parallel()
	for _, value := range []float64{
		-1.2345678901234567e-6, -1.2345678901234567e-300, -5e-324, -math.MaxFloat64, -999999999999999868928, math.Inf(-1),
	} {
		if text := format(value); len(text) > MaxMetricValue {
			t.Errorf("the text %s has %d characters, want at most %d", text, len(text), MaxMetricValue)
		}
	}
}

// checkMetrics checks that metrics are within their limits.
func checkMetrics(t *testing.T, metrics []batchv1beta1.ProgressMetric) {
	t.Helper()
	if len(metrics) > MaxMetrics {
		t.Errorf("there are %d metrics, want at most %d", len(metrics), MaxMetrics)
	}
	for i, m := range metrics {
		if !isMetricName(m.Name) || i > 0 && metrics[i-1].Name >= m.Name {
			t.Errorf("the name of metric %d is %q, which is invalid or not sorted", i, m.Name)
		}
		if _, err := strconv.ParseFloat(m.Value, 64); err != nil || len(m.Value) > MaxMetricValue {
			t.Errorf("the value of the metric %s is %q, want a number of at most %d characters", m.Name, m.Value, MaxMetricValue)
		}
	}
}

// checkNumbers checks that a percentage and steps are within their limits.
func checkNumbers(t *testing.T, percent *int32, step, total *int64) {
	t.Helper()
	if p := ptr.Deref(percent, 0); p < 0 || p > 100 {
		t.Errorf("the percentage is %d, want 0 to 100", p)
	}
	if s := ptr.Deref(step, 0); s < 0 || s > MaxStep {
		t.Errorf("the step is %d, want 0 to %d", s, int64(MaxStep))
	}
	if s := ptr.Deref(total, 1); s < 1 || s > MaxStep {
		t.Errorf("the number of steps is %d, want 1 to %d", s, int64(MaxStep))
	}
}

func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"step": 420, "totalSteps": 1000, "percent": 42, "metrics": {"loss": 0.31}, "silenceSeconds": 1800}`,
		`{"starting": true}`,
		`{"metrics": {"a": NaN, "b": -Infinity, "c": "inf", "d": null}}`,
		`{"trainerStatus": {"lastUpdatedTime": "t", "progressPercentage": 42, "estimatedRemainingSeconds": 7, ` +
			`"metrics": [{"name": "current_step", "value": "420"}, {"name": "total_steps", "value": "1000"}]}}`,
		`{"step": 1e400}`, `{"step": "\u0030"}`, `[`, `null`, `{"a\"NaN": 1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(body)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Errorf("the error has %d bytes, want at most 1024: %v", len(err.Error()), err)
			}
			if diff := cmp.Diff(Report{}, r); diff != "" {
				t.Errorf("there is a report with an error (-want +got):\n%s", diff)
			}
			return
		}
		checkNumbers(t, r.Percent, r.Step, r.TotalSteps)
		checkMetrics(t, r.Metrics)
		if r.Silence < 0 || r.Silence > MaxSilence {
			t.Errorf("the silence is %s, want 0 to %s", r.Silence, MaxSilence)
		}
	})
}
