package command

import (
	"io"
	"strings"
	"testing"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestStatusLineHasOnlyMetricsThatFit(t *testing.T) {
	t.Parallel()
	line := statusLineOf("2/2", "30%",
		batchv1beta1.ProgressMetric{Name: "loss", Value: "1.25"},
		batchv1beta1.ProgressMetric{Name: "learning_rate", Value: "0.0003"},
		batchv1beta1.ProgressMetric{Name: "acc", Value: "0.5"})
	if !strings.HasSuffix(line, " 30%  loss 1.25  acc 0.5") {
		t.Errorf("the status line is %q", line)
	}
}

func TestStatusLineIsOneLine(t *testing.T) {
	t.Parallel()
	line := statusLineOf("2/2\x1b[2J\nforged", "30%\nforged",
		batchv1beta1.ProgressMetric{Name: "loss\nforged", Value: "1\r\nforged"})
	if strings.ContainsAny(line, "\r\n") || strings.Contains(line, "\x1b[2J") {
		t.Errorf("the status line is %q", line)
	}
}

// statusLineOf returns the status line of a job that has done 30 percent of its training, for 80 columns.
func statusLineOf(ready, summary string, metrics ...batchv1beta1.ProgressMetric) string {
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	job.JobStatus().Phase, job.JobStatus().Ready = "Running", ready
	job.JobStatus().Progress = &batchv1beta1.ProgressStatus{Percent: new(int32(30)), Summary: summary, Metrics: metrics}
	f := &runFollower{screen: newConsole(io.Discard, io.Discard)}
	return f.statusLine(job)
}
