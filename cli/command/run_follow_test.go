package command

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
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

// statusLineOf returns the status line of a job that has done 30 percent of its training. The line fits into 80
// columns.
func statusLineOf(ready, summary string, metrics ...batchv1beta1.ProgressMetric) string {
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	job.JobStatus().Phase, job.JobStatus().Ready = "Running", ready
	job.JobStatus().Progress = &batchv1beta1.ProgressStatus{Percent: new(int32(30)), Summary: summary, Metrics: metrics}
	f := &runFollower{screen: newConsole(io.Discard, io.Discard)}
	return f.statusLine(job)
}

func TestRunShowsTheOutputOfAFailedReplicaOnce(t *testing.T) {
	t.Parallel()
	ptjob := func() jobs.Job {
		object := &pytorchv1beta1.PyTorchTrainingJob{}
		object.Spec.ReplicaSpecs = []pytorchv1beta1.ReplicaSpec{{Type: "worker", Replicas: new(int32(2))}}
		return jobs.Job{Kind: jobs.Kinds[0], Job: object}
	}
	dsjob := func() jobs.Job {
		object := &deepspeedv1beta1.DeepSpeedJob{}
		object.Spec.Worker.Replicas = new(int32(2))
		return jobs.Job{Kind: jobs.Kinds[2], Job: object}
	}
	failure := func(replica, output string) batchv1beta1.ReplicaFailure {
		return batchv1beta1.ReplicaFailure{Replica: replica, ExitCode: new(int32(1)), Reason: "Error", Message: output}
	}
	leader, peer := failure("digits-worker-0", "ConnectionError"), failure("digits-worker-1", "ValueError\x1b[2J")
	evicted := batchv1beta1.ReplicaFailure{Replica: "digits-worker-1", Reason: "Evicted", Message: "no disk"}
	const leaderFailed = "replica digits-worker-0 failed; its last output:\nConnectionError"
	const peerFailed = "replica digits-worker-1 failed; its last output:\nValueError"
	const peerShown = "digits-worker-1 failed with exit code 1 (Error):\nValueError\n"
	for name, tc := range map[string]struct {
		job            func() jobs.Job
		failures       []batchv1beta1.ReplicaFailure // the newest first
		condition      string
		isLogged       bool
		messages, want string
	}{
		"the log of the leader has its output": {
			job: ptjob, failures: []batchv1beta1.ReplicaFailure{leader}, condition: leaderFailed, isLogged: true,
			want: "replica digits-worker-0 failed",
		},
		"the error has the output of a leader whose log cannot be read": {
			job: ptjob, failures: []batchv1beta1.ReplicaFailure{leader}, condition: leaderFailed,
			want: leaderFailed,
		},
		"the output of another replica is a message": {
			job: ptjob, failures: []batchv1beta1.ReplicaFailure{peer}, condition: peerFailed, isLogged: true,
			messages: peerShown, want: "replica digits-worker-1 failed",
		},
		"the output of a replica that failed before the leader is a message": {
			job: ptjob, failures: []batchv1beta1.ReplicaFailure{leader, peer}, condition: leaderFailed, isLogged: true,
			messages: peerShown, want: "replica digits-worker-0 failed",
		},
		"a replica that did not end by itself has no output": {
			job: ptjob, failures: []batchv1beta1.ReplicaFailure{leader, evicted}, condition: leaderFailed, isLogged: true,
			want: "replica digits-worker-0 failed",
		},
		"the log of a launcher has the output of all replicas": {
			job: dsjob, failures: []batchv1beta1.ReplicaFailure{peer}, condition: leaderFailed, isLogged: true,
			want: "replica digits-worker-0 failed",
		},
		"a job that was too slow has no output": {job: ptjob, condition: "too slow", isLogged: true, want: "too slow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := tc.job()
			job.SetName("digits")
			job.JobStatus().Failures = tc.failures
			job.JobStatus().Conditions = []metav1.Condition{{Type: batchv1beta1.ConditionFailed, Message: tc.condition}}
			var errOut bytes.Buffer
			f := &runFollower{screen: newConsole(io.Discard, &errOut), job: job}
			f.showFailures(job)
			f.showFailures(job)
			if diff := cmp.Diff(tc.messages, errOut.String()); diff != "" {
				t.Errorf("unexpected messages (-want +got):\n%s", diff)
			}
			want := fmt.Sprintf("%s has failed after 0s: %s\nTo see why: kubectl train why %[1]s", job.Ref(), tc.want)
			if diff := cmp.Diff(want, f.failed(job, tc.isLogged).Error()); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}
