package screen_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
)

var update = flag.Bool("update", false, "write the golden files")

// sizes are the sizes of the terminals of the golden files.
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

// golden compares the text of a screen with a file in testdata, which has it without colors.
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
