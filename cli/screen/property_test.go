package screen_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestScreensFitTheirTerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		size := screen.View{
			Width: rapid.IntRange(0, 250).Draw(t, "width"), Height: rapid.IntRange(0, 70).Draw(t, "height"),
			Offset: rapid.IntRange(-1, 300).Draw(t, "offset"),
		}
		fits(t, screen.Job(s, size, stories.Now), size)
		all := stories.Jobs()
		all.Items = append(all.Items, s.Job)
		all.Namespace = rapid.SampledFrom([]string{"", "vision"}).Draw(t, "namespace")
		fits(t, screen.Table(all, size, stories.Now), size)
		for _, line := range screen.Changes(nil, s, s.Job.Ref(), stories.Now) {
			isSafe(t, line)
		}
	})
}

// fits checks that a page fits a view, and that it is safe to print.
func fits(t *rapid.T, p screen.Page, v screen.View) {
	drawn := p.Draw(v)
	lines := strings.Split(drawn, "\n")
	if len(lines) > max(v.Height, 1) {
		t.Fatalf("the screen has %d lines, and the terminal has %d:\n%s", len(lines), v.Height, drawn)
	}
	for line := range strings.Lines(p.Print(v.Width)) {
		isSafe(t, ansi.Strip(strings.TrimSuffix(line, "\n")))
	}
	for _, line := range lines {
		if columns := ansi.StringWidth(line); columns > v.Width {
			t.Fatalf("a line has %d columns, and the terminal has %d: %q", columns, v.Width, line)
		}
		isSafe(t, ansi.Strip(line))
	}
	colors := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[m", "")
	if rest := colors.Replace(strip(drawn)); strings.ContainsRune(rest, '\x1b') {
		t.Fatalf("the screen has an escape sequence other than a color: %q", rest)
	}
}

// strip removes the escape sequences that set one of the 16 colors, alone or together with bold or faint.
func strip(text string) string {
	for _, attribute := range []string{"", "1;", "2;"} {
		for color := 30; color <= 97; color++ {
			text = strings.ReplaceAll(text, fmt.Sprintf("\x1b[%s%dm", attribute, color), "")
		}
	}
	return text
}

// isSafe checks that a line has no characters that change the terminal or the order of the text.
func isSafe(t *rapid.T, line string) {
	if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
		t.Fatalf("the line has a control character: %q", line)
	}
}

// text draws a text that a tenant could write, with escape sequences.
var text = rapid.OneOf(
	rapid.StringN(0, 40, 80),
	rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
		"\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJm\x07", "\x1b[31m", "\u009b31m", "\x1bPq#0\x1b\\", "\r", "\n", "\t",
		"\b", "\u202e", "\u200b", "\u2066", "世界", "👩‍👩‍👧", "e\u0301", "\xff", "word ", "a-very-long-word-without-any-space ",
		"%s%d",
	})), func(parts []string) string { return strings.Join(parts, "") }),
)

// drawSnapshot draws a story, and changes parts of it at random.
func drawSnapshot(t *rapid.T) screen.Snapshot {
	all := stories.All()
	s := all[rapid.IntRange(0, len(all)-1).Draw(t, "story")].Snapshot
	status := s.Job.JobStatus()
	status.Phase = batchv1beta1.JobPhase(rapid.OneOf(text, rapid.SampledFrom([]string{
		"", "Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown",
	})).Draw(t, "phase"))
	status.Reason = rapid.OneOf(text, rapid.Just(status.Reason)).Draw(t, "reason")
	for i := range status.Conditions {
		status.Conditions[i].Message = text.Draw(t, "message")
		status.Conditions[i].Status = rapid.SampledFrom([]metav1.ConditionStatus{
			metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown,
		}).Draw(t, "status")
	}
	phases := rapid.SampledFrom([]batchv1beta1.ReplicaPhase{
		"Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted", "\x1b[2J",
	})
	for i, n := range rapid.SliceOfN(rapid.IntRange(0, 300), 0, 3).Draw(t, "replicas") {
		task := batchv1beta1.TaskStatus{Type: rapid.OneOf(rapid.Just("worker"), text).Draw(t, "type")}
		phase := phases.Draw(t, "replica phase")
		for index := range n {
			if index%7 == i {
				phase = phases.Draw(t, "replica phase")
			}
			task.Replicas = append(task.Replicas, batchv1beta1.ReplicaStatus{
				Name: fmt.Sprintf("job-%s-%d", task.Type, index), Phase: phase, Node: "node",
			})
		}
		status.Tasks = append(status.Tasks, task)
	}
	status.Progress = rapid.Ptr(rapid.Custom(drawProgress), true).Draw(t, "progress")
	status.Failures = append(status.Failures, batchv1beta1.ReplicaFailure{
		Replica: text.Draw(t, "failed"), Node: text.Draw(t, "node"),
		Reason: text.Draw(t, "why"), Message: text.Draw(t, "output"),
		Time:    metav1.NewTime(stories.Now.Add(-time.Minute)),
		Devices: []batchv1beta1.UnhealthyDevice{{Resource: text.Draw(t, "resource"), ID: text.Draw(t, "device")}},
	})
	status.AvoidedNodes = append(status.AvoidedNodes, batchv1beta1.AvoidedNode{
		Name: text.Draw(t, "avoided"), Reason: text.Draw(t, "avoided why"), Until: metav1.NewTime(stories.Now.Add(time.Hour)),
	})
	s.Events = append(s.Events, screen.Event{
		Type: text.Draw(t, "event type"), Reason: text.Draw(t, "event reason"), Message: text.Draw(t, "event message"),
		Time: stories.Now,
	})
	s.Queue = &screen.Queue{
		Name: text.Draw(t, "queue"), Usage: text.Draw(t, "usage"), Within: text.Draw(t, "within"),
		Place: rapid.IntRange(0, 5).Draw(t, "place"), Waiting: rapid.IntRange(0, 5).Draw(t, "waiting"),
	}
	s.TensorBoard, s.Trouble = text.Draw(t, "url"), text.Draw(t, "trouble")
	// The schema of a job does not restrict the names of resources, so they can contain escape sequences.
	s.Job.Spec().Roles[0].Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceName("example.com/" + text.Draw(t, "device")): resource.MustParse("1"),
	}
	s.Missing = rapid.SliceOf(text).Draw(t, "missing")
	s.Job.SetName(text.Draw(t, "name"))
	s.Job = jobs.Job{Job: s.Job.Job, Kind: s.Job.Kind}
	return s
}

// drawProgress draws a progress that a training could report.
func drawProgress(t *rapid.T) batchv1beta1.ProgressStatus {
	p := batchv1beta1.ProgressStatus{
		Summary:    text.Draw(t, "summary"),
		Percent:    rapid.Ptr(rapid.Int32(), true).Draw(t, "percent"),
		Step:       rapid.Ptr(rapid.Int64(), true).Draw(t, "step"),
		TotalSteps: rapid.Ptr(rapid.Int64(), true).Draw(t, "steps"),
	}
	for range rapid.IntRange(0, 16).Draw(t, "metrics") {
		p.Metrics = append(p.Metrics,
			batchv1beta1.ProgressMetric{Name: text.Draw(t, "metric"), Value: text.Draw(t, "value")})
	}
	if rapid.Bool().Draw(t, "has times") {
		p.EstimatedCompletionTime, p.LastReportTime = drawTime(t), drawTime(t)
	}
	return p
}

// drawTime draws a time at most 68 years from now.
func drawTime(t *rapid.T) *metav1.Time {
	return &metav1.Time{Time: stories.Now.Add(time.Duration(rapid.Int32().Draw(t, "seconds")) * time.Second)}
}
