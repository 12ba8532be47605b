package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What users read in a status is explained where they look for what to do, and the phases of a job have a section each.
func TestTroubleshootingKnowsEveryReason(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(folder, "troubleshooting.md"))
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
				case strings.HasPrefix(heading, "Reasons") && !strings.Contains(heading, "events") && isTrouble(value) &&
					!strings.Contains(document, "`"+value+"`"):
					t.Errorf("%s: %q: nothing is said of %s", page, heading, value)
				}
			}
		}
		if rows < 5 {
			t.Errorf("%s has %d rows: these cannot be all", page, rows)
		}
	}
}

// isTrouble says that a user who reads the reason may want to know what to do. Of others the reference is enough.
func isTrouble(reason string) bool {
	switch reason {
	case "Admitted", "EnoughPods", "Scheduled", "Open", "Serving", // all is well
		// a TensorBoard that somebody looks at, or nobody
		"RecentRequest", "NoRequest", "NotRunning", "ProbeFailed", "AllAvailable":
		return false
	}
	return true
}

// sections returns the text below each heading of the second level.
func sections(document string) map[string]string {
	found := map[string]string{}
	for _, section := range strings.Split(document, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		found[heading] = text
	}
	return found
}
