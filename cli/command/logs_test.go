package command

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestLogsFollowNewReplicasUpToTheLimit(t *testing.T) {
	t.Parallel()
	workers := pytorchv1beta1.ReplicaSpec{Type: "worker", Replicas: new(int32(3))}
	workers.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
	object := &pytorchv1beta1.PyTorchTrainingJob{}
	object.Name, object.Spec.ReplicaSpecs = "digits", []pytorchv1beta1.ReplicaSpec{workers}
	job := jobs.Job{Kind: jobs.Kinds[0], Job: object}
	started := map[string]bool{"digits-worker-0": true, "digits-worker-7": true}
	o := logOptions{all: true, follow: true, maxStreams: 2}
	next, isLimited := o.notStarted(job, started)
	if next == nil || next.Name != "digits-worker-1" || isLimited {
		t.Errorf("got %v, %t, want digits-worker-1: removed replicas do not count", next, isLimited)
	}
	started["digits-worker-1"] = true
	if next, isLimited = o.notStarted(job, started); next != nil || !isLimited {
		t.Errorf("got %v, %t, want the limit", next, isLimited)
	}
}

func TestLogsInATerminalCannotControlIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isRaw, isStamped bool
		line, want       string
	}{
		"colors are removed":            {line: "\x1b[31mred\x1b[0m\n", want: "[worker-1] red\n"},
		"the title cannot be changed":   {line: "\x1b]0;title\x07text\n", want: "[worker-1] text\n"},
		"the clipboard cannot be set":   {line: "\x1b]52;c;cm0gLXJm\x07\n", want: "[worker-1] \n"},
		"the screen cannot be cleared":  {line: "\x1b[2J\x1b[Htext\n", want: "[worker-1] text\n"},
		"C1 controls are removed":       {line: "\u009b2Jtext\n", want: "[worker-1] 2Jtext\n"},
		"the prefix cannot be replaced": {line: "\r[worker-0] forged\n", want: "[worker-1] [worker-0] forged\n"},
		"a progress bar has its last state": {
			line: "50%\r100%\n", want: "[worker-1] 100%\n",
		},
		"a progress bar keeps its time": {
			isStamped: true, line: "2026-01-02T03:04:05Z 50%\r100%\n",
			want: "[worker-1] 2026-01-02T03:04:05Z 100%\n",
		},
		"a raw line is not changed": {isRaw: true, line: "\x1b[31mred\x1b[0m\r\n", want: "[worker-1] \x1b[31mred\x1b[0m\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			writer := &lockedWriter{writer: &out, isClean: !tc.isRaw, isStamped: tc.isStamped}
			if err := writer.withPrefix("[worker-1] ")([]byte(tc.line)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutputOfOneReplicaInATerminal(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-02T03:04:05Z "
	for name, tc := range map[string]struct {
		options logOptions
		pieces  []string
		want    string
	}{
		"a bar moves, and the last line ends": {
			pieces: []string{"\r\x1b[32m 50%", "\x1b[0m\r100%\x1b[0m"}, want: " 50%\r\x1b[K100%\n",
		},
		"a bar keeps its time": {
			options: logOptions{timestamps: true}, pieces: []string{stamp + "50%", "\r100%\n"},
			want: stamp + "50%\r\x1b[K" + stamp + "100%\n",
		},
		"no escape sequence of the program is written": {
			pieces: []string{"\x1b]0;ti", "tle\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J", "\x1b[Htext\n"}, want: "text\n",
		},
		"a raw bar is not changed": {
			options: logOptions{raw: true}, pieces: []string{"\x1b[31m50%\r", "100%\r\n"}, want: "\x1b[31m50%\r100%\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			writer := tc.options.writer(&out)
			writer.isTerminal, writer.isClean = true, !tc.options.raw
			for _, piece := range tc.pieces {
				if err := writer.piece([]byte(piece)); err != nil {
					t.Fatal(err)
				}
			}
			if err := writer.end(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogsOfAFailureAreThoseOfTheContainerThatFailed(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code},
		}}
	}
	waiting := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	for name, tc := range map[string]struct {
		init []corev1.ContainerStatus
		main corev1.ContainerStatus
		want string
	}{
		"the main container failed": {main: ended("main", 1), want: "main"},
		"an init container failed before it": {
			init: []corev1.ContainerStatus{ended("fetch", 42)}, main: waiting, want: "fetch",
		},
		"the last init container that failed": {
			init: []corev1.ContainerStatus{ended("mesh", 143), ended("fetch", 42), ended("wait", 0)},
			main: waiting, want: "fetch",
		},
		"the main container failed, and a sidecar ended with an error": {
			init: []corev1.ContainerStatus{ended("mesh", 143)}, main: ended("main", 1), want: "main",
		},
		"the main container, if none has failed": {
			init: []corev1.ContainerStatus{ended("fetch", 0)}, main: waiting, want: "main",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Status: corev1.PodStatus{
				InitContainerStatuses: tc.init, ContainerStatuses: []corev1.ContainerStatus{tc.main},
			}}
			if diff := cmp.Diff(tc.want, failedContainer(pod, "main")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLogsOfAPodThatIsGonePointToTheReplicaThatFailedFirst(t *testing.T) {
	t.Parallel()
	leader := batchv1beta1.ReplicaFailure{Replica: "digits-worker-0", Reason: "Error", Message: "no peer"}
	peer := batchv1beta1.ReplicaFailure{Replica: "digits-worker-1", Reason: "Error", Message: "no data"}
	const none = "digits-worker-0 has no pod, and status.failures of ptjob/digits has no output of it: "
	const kept = "The pod is gone. status.failures has kept the end of its output: "
	for name, tc := range map[string]struct {
		failures         []batchv1beta1.ReplicaFailure // the newest first
		options          logOptions
		out, errOut, err string
	}{
		"without a failure, only the state of the job helps": {
			err: none + "kubectl train why ptjob/digits explains the state of the job",
		},
		"a replica without output points to the one that failed first": {
			failures: []batchv1beta1.ReplicaFailure{peer},
			err: none + "kubectl train logs ptjob/digits --failed prints the output of digits-worker-1, which failed " +
				"first",
		},
		"a replica that failed later points to the one that failed first": {
			failures: []batchv1beta1.ReplicaFailure{peer, leader}, out: "no peer\n",
			errOut: kept + "digits-worker-0 failed (Error), 60m ago.\n" +
				"kubectl train logs ptjob/digits --failed prints the output of digits-worker-1, which failed first.\n",
		},
		"the replica that failed first points to no other": {
			failures: []batchv1beta1.ReplicaFailure{leader, peer}, out: "no peer\n",
			errOut: kept + "digits-worker-0 failed (Error), 60m ago.\n",
		},
		"the output of the replica that failed first points to no other": {
			failures: []batchv1beta1.ReplicaFailure{peer}, options: logOptions{failed: true}, out: "no data\n",
			errOut: kept + "digits-worker-1 failed (Error), 60m ago.\n",
		},
		"the output of all replicas points to no other": {
			failures: []batchv1beta1.ReplicaFailure{peer}, options: logOptions{all: true},
			errOut: "digits-worker-0 has no pod, and status.failures has no output of it.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
			job.SetName("digits")
			for _, failure := range tc.failures {
				failure.Time = metav1.NewTime(time.Now().Add(-time.Hour))
				job.JobStatus().Failures = append(job.JobStatus().Failures, failure)
			}
			var out, errOut bytes.Buffer
			e := &environment{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}
			err := e.printFailure(job, jobs.Replica{Name: "digits-worker-0"}, tc.options)
			got := [...]string{out.String(), errOut.String(), ""}
			if err != nil {
				got[2] = err.Error()
			}
			if diff := cmp.Diff([...]string{tc.out, tc.errOut, tc.err}, got); diff != "" {
				t.Errorf("unexpected output, messages and error (-want +got):\n%s", diff)
			}
		})
	}
}
