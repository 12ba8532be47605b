package screen_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

func TestLinesOfStories(t *testing.T) {
	t.Parallel()
	for _, story := range stories.All() {
		t.Run(story.Name, func(t *testing.T) {
			t.Parallel()
			s := story.Snapshot
			lines := screen.Changes(nil, s, s.Job.Ref(), stories.Now)
			golden(t, story.Name+"-lines", strings.Join(lines, "\n")+"\n")
		})
	}
}

func TestLinesOfChanges(t *testing.T) {
	t.Parallel()
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(stories.Now.Add(time.Duration(minutes) * time.Minute))
	}
	tests := map[string]struct {
		before, after func(s *screen.Snapshot, status *batchv1beta1.JobStatus)
		want          []string
	}{
		"nothing is printed if nothing changes": {},
		"a new message of the same reason is no news, since the messages of waiting jobs change with each replica": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) { status.Conditions[0].Message = "other" },
		},
		"a failure is above the restart and the phase that follow from it": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.Failures = []batchv1beta1.ReplicaFailure{{
					Replica: "bert-large-worker-1", Node: "gpu-02", ExitCode: new(int32(137)), Reason: "OOMKilled", Time: at(0),
					Counted: true,
				}}
				status.BackoffCount, status.Attempt = 1, 1
				status.Phase, status.Reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonRestarting
				status.Conditions[0].Reason, status.Conditions[0].Message = status.Reason, "bert-large-worker-0 is being replaced"
				status.Tasks[0].Replicas[1].Phase = batchv1beta1.ReplicaPhaseFailed
			},
			want: []string{
				"failure: worker-1 on gpu-02: exit code 137 (OOMKilled)", "restarts: 1 of 3, attempt 1",
				"replicas: 3 of 4 running, 1 failed", "phase: Pending (Restarting): bert-large-worker-0 is being replaced",
			},
		},
		"two new failures are printed with the oldest first": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.Failures = []batchv1beta1.ReplicaFailure{
					{Replica: "bert-large-worker-1", Reason: "Preempted", Time: at(0)},
					{Replica: "bert-large-worker-0", Reason: "Evicted", Time: at(-1)},
				}
			},
			want: []string{"failure: worker-0: Evicted, not counted", "failure: worker-1: Preempted, not counted"},
		},
		"a report is printed with its metrics": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.Progress = &batchv1beta1.ProgressStatus{
					Summary: "43% (43000/100000)", Metrics: []batchv1beta1.ProgressMetric{{Name: "loss", Value: "1.8"}},
					EstimatedCompletionTime: new(at(90)),
				}
			},
			want: []string{"progress: 43% (43000/100000) loss=1.8 eta=2026-11-26T18:54:05Z"},
		},
		"a restart in place is printed, and its event is not": {
			after: func(s *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.RestartsInPlace = &batchv1beta1.RestartsInPlace{
					Count: 2, Last: []batchv1beta1.RestartInPlace{{Replica: "bert-large-worker-1", ExitCode: new(int32(7))}},
				}
				s.Events = append([]screen.Event{{Name: "a", Reason: "RestartedInPlace", Time: stories.Now}}, s.Events...)
			},
			want: []string{"in-place: 2, the last because a process on bert-large-worker-1 ended with exit code 7"},
		},
		"a report without other numbers is no news": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) { status.Progress.LastReportTime = new(at(0)) },
		},
		"a stall is printed": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				stall(status, metav1.ConditionTrue, "NoProgress")
			},
			want: []string{"stalled: True (NoProgress): silent"},
		},
		"the end of a stall is printed": {
			before: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				stall(status, metav1.ConditionTrue, "NoProgress")
			},
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				stall(status, metav1.ConditionFalse, "Progressing")
			},
			want: []string{"stalled: False (Progressing): silent"},
		},
		"a node is printed when the job begins and ends to avoid it": {
			before: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.AvoidedNodes = []batchv1beta1.AvoidedNode{{Name: "gpu-01", Reason: "NodeLost", Until: at(0)}}
			},
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.AvoidedNodes = []batchv1beta1.AvoidedNode{{Name: "gpu-02", Reason: "NodeLost", Until: at(60)}}
			},
			want: []string{"avoids: gpu-02 (NodeLost) until 2026-11-26T18:24:05Z", "avoids: gpu-01 no longer"},
		},
		"the place in the queue is printed, but not the usage, which changes with other jobs": {
			before: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) {
				s.Queue = &screen.Queue{Name: "lab", Place: 2, Waiting: 3, Usage: "cpu 1 of 2 used"}
			},
			after: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) {
				s.Queue = &screen.Queue{Name: "lab", Place: 1, Waiting: 3, Usage: "cpu 2 of 2 used"}
			},
			want: []string{"queue: lab, place 1 of 3"},
		},
		"another usage is no news": {
			after: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) {
				s.Queue = &screen.Queue{Name: "lab", Admitted: true, Usage: "nvidia.com/gpu 64 of 64 used"}
			},
		},
		"the URL of the TensorBoard is printed": {
			before: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) { s.TensorBoard = "" },
			want:   []string{"tensorboard: http://bert-large-tb.vision.svc.cluster.local"},
		},
		"an event is printed unless the status has its content": {
			after: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) {
				s.Events = append([]screen.Event{
					{Name: "b", Type: "Warning", Reason: "NoEffect", Message: "elastic has no effect", Time: stories.Now},
					{Name: "a", Type: "Normal", Reason: "Running", Message: "all 4 replicas run", Time: stories.Now},
				}, s.Events...)
			},
			want: []string{"event: NoEffect: elastic has no effect"},
		},
		"a broken connection is printed": {
			after: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) { s.Trouble = "connection refused" },
			want:  []string{"trouble: not up to date: connection refused"},
		},
		"a new connection is printed": {
			before: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) { s.Trouble = "connection refused" },
			want:   []string{"trouble: over"},
		},
		"the deletion of the job is printed": {
			after: func(s *screen.Snapshot, _ *batchv1beta1.JobStatus) { s.Deleted = true },
			want:  []string{"deleted: the job no longer exists"},
		},
		"escape sequences and line breaks of the cluster are removed": {
			after: func(_ *screen.Snapshot, status *batchv1beta1.JobStatus) {
				status.Phase, status.Reason = batchv1beta1.JobPhasePending, "Image\x1b[2JPull"
				status.Conditions[0].Reason = status.Reason
				status.Conditions[0].Message = "image \x1b]0;title\x07\x1b[31mred\x1b[0m\r\n" +
					"2026-11-26T17:24:05Z ptjob/other phase: Failed"
			},
			want: []string{"phase: Pending (ImagePull): image red 2026-11-26T17:24:05Z ptjob/other phase: Failed"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := running(), running()
			for s, change := range map[*screen.Snapshot]func(*screen.Snapshot, *batchv1beta1.JobStatus){
				&before: test.before, &after: test.after,
			} {
				if change != nil {
					change(s, s.Job.JobStatus())
				}
			}
			var want []string
			for _, line := range test.want {
				want = append(want, "2026-11-26T17:24:05Z ptjob/bert-large "+line)
			}
			if diff := cmp.Diff(want, screen.Changes(&before, after, "ptjob/bert-large", stories.Now)); diff != "" {
				t.Errorf("the lines differ (-want +got):\n%s", diff)
			}
		})
	}
}

// running returns a copy of the story of a job that runs.
func running() screen.Snapshot {
	for _, story := range stories.All() {
		if story.Name == "running" {
			s := story.Snapshot
			s.Job = jobs.Job{Job: s.Job.DeepCopyObject().(framework.Job), Kind: s.Job.Kind}
			return s
		}
	}
	panic("there is no such story")
}

// stall sets the condition Stalled.
func stall(status *batchv1beta1.JobStatus, is metav1.ConditionStatus, reason string) {
	status.Conditions = append(status.Conditions, metav1.Condition{
		Type: batchv1beta1.ConditionStalled, Status: is, Reason: reason, Message: "silent",
	})
}
