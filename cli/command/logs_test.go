package command

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
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
