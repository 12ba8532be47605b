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
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	job.JobStatus().Phase, job.JobStatus().Ready = "Running", "2/2"
	job.JobStatus().Progress = &batchv1beta1.ProgressStatus{
		Percent: new(int32(30)), Summary: "30%",
		Metrics: []batchv1beta1.ProgressMetric{
			{Name: "loss", Value: "1.25"}, {Name: "learning_rate", Value: "0.0003"}, {Name: "acc", Value: "0.5"},
		},
	}
	f := &runFollower{screen: newConsole(io.Discard, io.Discard)} // of 80 columns
	if line := f.statusLine(job); !strings.HasSuffix(line, " 30%  loss 1.25  acc 0.5") {
		t.Errorf("the status line is %q", line)
	}
}

func TestStatusLineIsOneLine(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	job.JobStatus().Phase, job.JobStatus().Ready = "Running", "2/2\x1b[2J\nforged"
	job.JobStatus().Progress = &batchv1beta1.ProgressStatus{
		Percent: new(int32(30)), Summary: "30%\nforged",
		Metrics: []batchv1beta1.ProgressMetric{{Name: "loss\nforged", Value: "1\r\nforged"}},
	}
	f := &runFollower{screen: newConsole(io.Discard, io.Discard)}
	line := f.statusLine(job)
	if strings.ContainsAny(line, "\r\n") || strings.Contains(line, "\x1b[2J") {
		t.Errorf("the status line is %q", line)
	}
}
