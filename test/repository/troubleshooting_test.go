package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tensorstack.dev/jobs/cli/why"
)

// TestTroubleshootingExplainsEveryReason checks that docs/train/troubleshooting.md has a section for each phase of a
// job, and mentions each reason that means trouble.
func TestTroubleshootingExplainsEveryReason(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(folder, "train", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := string(content)
	for _, page := range []string{"jobs.md", "tensorboard.md", "scheduler.md"} {
		reference, err := os.ReadFile(filepath.Join(folder, "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for heading, table := range sections(string(reference)) {
			for _, row := range tableRows(table) {
				rows++
				value := strings.Trim(row[0], "`")
				switch {
				case heading == "Phases of a job":
					if !strings.Contains(document, "\n## "+value+"\n") {
						t.Errorf("the phase %s has no section", value)
					}
				case strings.HasPrefix(heading, "Reasons") && !strings.Contains(heading, "events") && why.IsTrouble(value) &&
					!strings.Contains(document, "`"+value+"`"):
					t.Errorf("docs/train/troubleshooting.md does not explain %s (%s, %q)", value, page, heading)
				}
			}
		}
		if rows < 5 {
			t.Errorf("found %d rows in %s, want at least 5", rows, page)
		}
	}
}

// sections maps each heading of the second level to the text below it.
func sections(document string) map[string]string {
	found := map[string]string{}
	for _, section := range strings.Split(document, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		found[heading] = text
	}
	return found
}
