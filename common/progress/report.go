// Package progress reads the progress of a training. The program in a pod reports its progress to a receiver, which is
// a sidecar of the same pod. The controller of the job reads the state of the receiver over HTTP.
//
// The receiver limits and validates the reports of the program. But everything in the pod belongs to a tenant,
// including the receiver. So the controller limits and validates the state of the receiver again. A tenant can only
// send wrong progress of its own jobs.
package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Limits of a report and of the state of a receiver.
const (
	// MaxBody is the maximum size of a report, of a state and of the header of a response, in bytes.
	MaxBody = 16 << 10
	// MaxMetrics is the maximum number of metrics. If there are more, the first ones by name are kept.
	MaxMetrics = 16
	// MaxMetricName is the maximum length of the name of a metric, in bytes.
	MaxMetricName = 64
	// MaxMetricValue is the maximum length of the value of a metric, in bytes.
	MaxMetricValue = 32
	// MaxStep is the maximum of Step and of TotalSteps. Up to this number, a 64-bit float represents every integer.
	MaxStep = 1 << 53
	// MaxSilence is the maximum time without another step that a report can announce.
	MaxSilence = 24 * time.Hour
)

// Report is one report of a program about its progress. A field that the report lacks is nil.
type Report struct {
	// Percent is how much of the training is done, from 0 to 100.
	Percent *int32
	// Step is the number of the last step, from 0 to MaxStep.
	Step *int64
	// TotalSteps is the number of steps of the whole training, from 1 to MaxStep.
	TotalSteps *int64
	// Metrics are at most MaxMetrics metrics, sorted by name. Each name is unique.
	Metrics []batchv1beta1.ProgressMetric
	// Silence announces that the program will report no other step for this time, for example because it writes a large
	// checkpoint. It is at most MaxSilence. 0 means none.
	Silence time.Duration
	// IsStart reports whether the processes of the training start again in the same pod, for example because a replica
	// has joined. A start is no report of progress, and has no other fields. The next report is the first one of these
	// processes.
	IsStart bool
}

// isEmpty reports whether the report contains nothing.
func (r Report) isEmpty() bool {
	return r.Percent == nil && r.Step == nil && r.TotalSteps == nil && len(r.Metrics) == 0 && r.Silence == 0 &&
		!r.IsStart
}

// fieldNames are the fields of a report in our own form.
var fieldNames = []string{"step", "totalSteps", "percent", "metrics", "silenceSeconds", "starting"}

var errEmpty = fmt.Errorf("the report is empty: send at least one of %s", strings.Join(fieldNames, ", "))

// Parse parses a report in one of two forms of JSON. Our own form has at least one of these fields:
//
//	{"step": 420, "totalSteps": 1000, "percent": 42, "metrics": {"loss": 0.31}, "silenceSeconds": 1800}
//	{"starting": true}
//
// A field that is null counts as absent. A number can also be a string. A value of a metric can be NaN or infinite:
// as a string, or as one of the bare words NaN and Infinity, which Python's json module writes. A percentage is
// rounded down. An unknown or invalid field is an error, so that users find typos.
//
// The other form is sent by the KubeflowCallback of Hugging Face Transformers:
//
//	{"trainerStatus": {"progressPercentage": 42, "metrics": [{"name": "current_step", "value": "420"}]}}
//
// The metrics current_step and total_steps become Step and TotalSteps. The percentage is limited to the range from 0
// to 100. The form belongs to another project, so Parse ignores unknown fields and invalid values. Parse also ignores
// the estimate of the remaining time, because it is wrong after a program has resumed from a checkpoint.
//
// An error contains nothing of the report, except the name of a field or of a metric.
func Parse(body []byte) (Report, error) {
	if len(body) > MaxBody {
		return Report{}, fmt.Errorf("the report has more than %d bytes: send fewer metrics", MaxBody)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(quoteBareWords(body), &fields) != nil {
		return Report{}, errors.New(`the report is not a JSON object such as {"step": 420}`)
	}
	if status, ok := fields["trainerStatus"]; ok {
		return parseKubeflow(status)
	}
	var r Report
	isEmpty := true
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(fieldNames, name) {
			return Report{}, fmt.Errorf("the field %.64q of the report is unknown: the fields are %s", name,
				strings.Join(fieldNames, ", "))
		}
		if isNull(fields[name]) {
			continue
		}
		isEmpty = false
		if err := r.set(name, fields[name]); err != nil {
			return Report{}, fmt.Errorf("the field %q of the report %w", name, err)
		}
	}
	if isEmpty {
		return Report{}, errEmpty
	}
	if r.IsStart && len(fields) > 1 {
		return Report{}, errors.New(`the field "starting" of the report must be the only one`)
	}
	return r, nil
}

// set sets the field with the given name to the parsed value.
func (r *Report) set(name string, raw json.RawMessage) (err error) {
	switch name {
	case "step":
		r.Step, err = integer(raw, 0)
	case "totalSteps":
		r.TotalSteps, err = integer(raw, 1)
	case "percent":
		value, ok := number(raw)
		if !ok || !(value >= 0 && value <= 100) {
			return errors.New("must be a number from 0 to 100")
		}
		r.Percent = new(int32(value))
	case "silenceSeconds":
		value, ok := number(raw)
		if !ok || !(value >= 0 && value <= MaxSilence.Seconds()) {
			return fmt.Errorf("must be a number from 0 to %.0f", MaxSilence.Seconds())
		}
		r.Silence = time.Duration(value * float64(time.Second))
	case "metrics":
		r.Metrics, err = readMetrics(raw)
	case "starting":
		if json.Unmarshal(raw, &r.IsStart) != nil || !r.IsStart {
			return errors.New("must be true")
		}
	}
	return err
}

// parseKubeflow parses the trainerStatus of a report.
func parseKubeflow(raw json.RawMessage) (Report, error) {
	var status struct {
		ProgressPercentage json.RawMessage `json:"progressPercentage"`
		Metrics            []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"metrics"`
	}
	if json.Unmarshal(raw, &status) != nil {
		return Report{}, errors.New(`the field "trainerStatus" of the report does not have the form of Kubeflow Trainer`)
	}
	var r Report
	if value, ok := number(status.ProgressPercentage); ok && !math.IsNaN(value) {
		r.Percent = new(int32(min(100, max(0, value))))
	}
	metrics := map[string]string{}
	for _, m := range status.Metrics {
		value, ok := number(m.Value)
		switch {
		case m.Name == "current_step":
			r.Step, _ = integer(m.Value, 0)
		case m.Name == "total_steps":
			r.TotalSteps, _ = integer(m.Value, 1)
		case ok && isMetricName(m.Name):
			metrics[m.Name] = format(value)
		}
	}
	r.Metrics = sorted(metrics)
	r.Metrics = r.Metrics[:min(len(r.Metrics), MaxMetrics)]
	if r.isEmpty() {
		return Report{}, errEmpty
	}
	return r, nil
}

// readMetrics reads the metrics of a report in our own form.
func readMetrics(raw json.RawMessage) ([]batchv1beta1.ProgressMetric, error) {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return nil, errors.New(`must be an object such as {"loss": 0.31}`)
	}
	metrics := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !isMetricName(name) {
			return nil, fmt.Errorf("has a metric with the name %.64q: a name has 1 to %d letters, digits or characters "+
				"of _.:/@-", name, MaxMetricName)
		}
		if isNull(values[name]) {
			continue
		}
		value, ok := number(values[name])
		if !ok {
			return nil, fmt.Errorf("has a metric %q that is not a number", name)
		}
		metrics[name] = format(value)
	}
	all := sorted(metrics)
	return all[:min(len(all), MaxMetrics)], nil
}

// sorted returns metrics by name as a sorted list. Nil means none.
func sorted(metrics map[string]string) []batchv1beta1.ProgressMetric {
	var list []batchv1beta1.ProgressMetric
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		list = append(list, batchv1beta1.ProgressMetric{Name: name, Value: metrics[name]})
	}
	return list
}

// metricName matches the name of a metric, but does not limit its length.
var metricName = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

func isMetricName(name string) bool {
	return len(name) <= MaxMetricName && metricName.MatchString(name)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// number returns the value of a JSON number, or of a string with a number. It returns false if raw is neither.
func number(raw json.RawMessage) (value float64, ok bool) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) && json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil
}

// integer returns the value of a number between a minimum and MaxStep. The number can be written as a float, such as
// 420.0.
func integer(raw json.RawMessage, least int64) (*int64, error) {
	value, ok := number(raw)
	if !ok || !(value >= float64(least) && value <= MaxStep) || value != math.Trunc(value) {
		return nil, fmt.Errorf("must be an integer from %d to %d", least, int64(MaxStep))
	}
	return new(int64(value)), nil
}

// format returns the text of a metric. The text has at most 6 significant digits, unless the value is an integer, and
// is shorter than MaxMetricValue.
func format(value float64) string {
	if value == math.Trunc(value) && math.Abs(value) < MaxStep {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return strconv.FormatFloat(value, 'g', 6, 64)
}

// stringOrBareWord matches the strings of a JSON document, and the words that Python writes for numbers that JSON does
// not have.
var stringOrBareWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// quoteBareWords puts NaN and Infinity into quotes. Users need to see such values, and a report that Parse rejected
// because of a metric would not count as progress.
func quoteBareWords(body []byte) []byte {
	return stringOrBareWord.ReplaceAllFunc(body, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return slices.Concat([]byte{'"'}, found, []byte{'"'})
	})
}
