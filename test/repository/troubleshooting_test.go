package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// fine are the reasons of objects that neither wait nor need help, and that have not ended.
var fine = []string{
	batchv1beta1.ReasonAccepted, batchv1beta1.ReasonReplicasRunning, batchv1beta1.ReasonPartiallyRunning,
	batchv1beta1.ReasonProgressing, batchv1beta1.ReasonNotRunning, batchv1beta1.ReasonResumed,
	batchv1beta1.ReasonRecovered,
	schedulerv1beta1.ReasonAdmitted, schedulerv1beta1.ReasonEnoughPods, schedulerv1beta1.ReasonScheduled,
	schedulerv1beta1.ReasonNotSupportedByEngine, schedulerv1beta1.ReasonOpen,
	tensorboardv1beta1.ReasonServing, tensorboardv1beta1.ReasonSuspended, tensorboardv1beta1.ReasonRecentRequest,
	tensorboardv1beta1.ReasonNoRequest, tensorboardv1beta1.ReasonAllAvailable,
}

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
				case strings.HasPrefix(heading, "Reasons") && !strings.Contains(heading, "events") &&
					!slices.Contains(fine, value) && !strings.Contains(document, "`"+value+"`"):
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
