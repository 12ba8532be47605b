package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// hostile has texts that others could write into the objects of a job.
var hostile = []string{
	"", "\x1b]0;owned\x07\x1b[2J\x1b[31m$(reboot)\n\n\nNext:\n  kubectl delete namespace vision\u202e", "\xff\xfe",
	"\x1b]52;c;'",
	"'; reboot; '", "{job} {message} {pod}", strings.Repeat("x", 20_000), strings.Repeat("many words ", 2_000),
}

// tables has the explanations of all reasons.
var tables = []map[string]entry{
	initialized, running, stalled, paused, ended, failures, podGroups, queues, tensorBoard, tensorBoardUse,
	jobEvents, queuedPodEvents,
}

// TestTextsAreSafe checks that the texts that others write cannot control the terminal, add lines, or run a command.
func TestTextsAreSafe(t *testing.T) {
	t.Parallel()
	for i, text := range hostile {
		for _, table := range tables {
			for _, reason := range slices.Concat(slices.Sorted(maps.Keys(table)), []string{text}) {
				phases := []batchv1beta1.JobPhase{
					batchv1beta1.JobPhasePending, batchv1beta1.JobPhaseRunning, batchv1beta1.JobPhaseFailed,
				}
				phase := phases[len(reason)%len(phases)]
				checkSafe(t, fmt.Sprintf("text %d, reason %.20q, phase %s", i, reason, phase), hostileFacts(t, phase, reason, text))
			}
		}
	}
}

// hostileFacts returns facts in which each field that others can write has the given text.
func hostileFacts(t *testing.T, phase batchv1beta1.JobPhase, reason, text string) Facts {
	t.Helper()
	facts := factsAbout(t, "scheduler: {t9kScheduler: {queue: lab}},", "")
	status := facts.Job.JobStatus()
	status.Phase, status.Reason, status.Omitted = phase, reason, text
	for _, conditionType := range []string{"Initialized", "Running", "Stalled", "ReplicaFailure"} {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: text,
		})
	}
	if phase == batchv1beta1.JobPhaseFailed {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: "Failed", Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonBackoffLimitExceeded, Message: text,
		})
	}
	status.Progress = &batchv1beta1.ProgressStatus{Summary: text, Replica: text}
	status.AvoidedNodes = []batchv1beta1.AvoidedNode{{Name: text, Reason: text}}
	status.Failures = []batchv1beta1.ReplicaFailure{{
		Replica: text, Node: text, Reason: reason, ExitCode: new(int32(1)), Message: text + "\n" + text, RankSignal: text,
		Devices: []batchv1beta1.UnhealthyDevice{{Resource: text, ID: text}},
	}}
	board := &batchv1beta1.DependentStatus{Reason: reason, Note: text}
	facts.Job.Job.(framework.TensorBoardJob).SetTensorBoardStatus(board)
	facts.Job.Spec().Roles[0].Template.Spec.Containers[0].Image = text
	for _, word := range []string{"ImagePullBackOff", "CreateContainerConfigError", "ContainerCreating"} {
		p := waitingPod(t, "digits-worker-0", word, text)
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: text, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		facts.Pods = append(facts.Pods, p)
	}
	facts.Events = []corev1.Event{
		event("PyTorchTrainingJob", text, reason, text), event("Pod", "digits-worker-0", "FailedMount", text),
	}
	facts.NotRead = []string{"the events"}
	return facts
}

// checkSafe checks that the explanation of facts is safe to print, and that no text in the facts adds another list of
// commands.
func checkSafe(t *testing.T, name string, facts Facts) {
	t.Helper()
	explanation := Explain(facts)
	text := explanation.String()
	isBad := func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
	switch {
	case strings.ContainsFunc(text, isBad) || !utf8.ValidString(text):
		t.Errorf("%s: the text has control characters: %q", name, text)
	case !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n"):
		t.Errorf("%s: the text does not end with one newline: %q", name, text)
	case len(text) > 20_000:
		t.Errorf("%s: the text has %d bytes", name, len(text))
	case len(explanation.Next) == 0:
		t.Errorf("%s: the text has no command: %q", name, text)
	case strings.Count(text, "\nNext:\n") != 1:
		t.Errorf("%s: the text has another list of commands: %q", name, text)
	}
	for _, finding := range explanation.Findings {
		for _, command := range finding.Next {
			if strings.ContainsFunc(command.Line, unicode.IsControl) ||
				strings.Contains(command.Line, "reboot") && !strings.Contains(command.Line, `'`) {
				t.Errorf("%s: the command is not safe: %q", name, command.Line)
			}
		}
	}
}
