package screen_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files")

// sizes are the terminal sizes that the golden files show.
var sizes = []screen.View{{Width: 80, Height: 24}, {Width: 200, Height: 50}}

func TestScreensOfStories(t *testing.T) {
	t.Parallel()
	for _, story := range stories.All() {
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%d", story.Name, size.Width)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				golden(t, name, screen.Job(story.Snapshot, size, stories.Now).Draw(size)+"\n")
			})
		}
	}
	for _, size := range sizes {
		name := fmt.Sprintf("jobs-%d", size.Width)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, screen.Table(stories.Jobs(), size, stories.Now).Draw(size)+"\n")
		})
	}
}

func TestAJobWhoseCodeIsNotUploadedHasNoReplicas(t *testing.T) {
	t.Parallel()
	s := storyNamed("paused")
	s.Job.SetAnnotations(map[string]string{jobs.AnnotationPreparing: "1"})
	for i := range s.Job.JobStatus().Tasks[0].Replicas {
		s.Job.JobStatus().Tasks[0].Replicas[i].Phase = batchv1beta1.ReplicaPhaseCreating
	}
	text := ansi.Strip(screen.Job(s, sizes[0], stories.Now).Draw(sizes[0]))
	for _, want := range []string{
		"‖ Paused  kubectl train run has not uploaded the code yet", "Replicas     none of 2 has been created",
		"kubectl train why -n vision ptjob/words",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestTheMessageIsCutOnlyIfThePageNeedsTheRows(t *testing.T) {
	t.Parallel()
	s := storyNamed("image-pull")
	conditions := s.Job.JobStatus().Conditions
	conditions[len(conditions)-1].Message = strings.Repeat("a long message of the kubelet ", 15) + "THE-END"
	for rows, want := range map[int]bool{20: false, 24: true, 50: true} {
		view := screen.View{Width: 80, Height: rows}
		text := screen.Job(s, view, stories.Now).Draw(view)
		if got := strings.Contains(text, "THE-END"); got != want {
			t.Errorf("on %d rows, the page has the end of the message: %t, want %t:\n%s", rows, got, want, text)
		}
		if !strings.Contains(text, "12m   ") {
			t.Errorf("on %d rows, the page lacks the newest event:\n%s", rows, text)
		}
	}
}

func TestAFinishedJobShowsTheReplicasThatStillRun(t *testing.T) {
	t.Parallel()
	s := storyNamed("failed")
	s.Job.JobStatus().Tasks[0].Replicas[0].Phase = batchv1beta1.ReplicaPhaseRunning
	text := ansi.Strip(screen.Job(s, sizes[0], stories.Now).Draw(sizes[0]))
	if want := "Replicas     1 failed, 1 running"; !strings.Contains(text, want) {
		t.Errorf("the page lacks %q:\n%s", want, text)
	}
}

func TestAgesAreNeverNegative(t *testing.T) {
	t.Parallel()
	beforeCreation := stories.Now.Add(-24 * time.Hour) // the clock of this machine is behind that of the cluster
	for _, story := range stories.All() {
		text := screen.Job(story.Snapshot, sizes[0], beforeCreation).Draw(sizes[0])
		if strings.Contains(text, "<invalid>") {
			t.Errorf("the screen of %s has an invalid age:\n%s", story.Name, text)
		}
	}
}

// storyNamed returns the snapshot of a story.
func storyNamed(name string) screen.Snapshot {
	all := stories.All()
	return all[slices.IndexFunc(all, func(s stories.Story) bool { return s.Name == name })].Snapshot
}

// golden compares the text of a screen, without colors, with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got = ansi.Strip(got)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the screen differs from %s (-want +got), use -update to change it:\n%s", path, diff)
	}
}
