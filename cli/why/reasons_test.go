package why

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"tensorstack.dev/jobs/cli/docs"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
)

// TestControllersKnowWhichPodGroupsNeedHelp tests the function by which the job controllers decide whether a job tells
// its user about a wait for its queue. It fails for a reason about which nobody has decided.
func TestControllersKnowWhichPodGroupsNeedHelp(t *testing.T) {
	t.Parallel()
	needsHelp := map[string]bool{
		schedulerv1beta1.ReasonAdmitted:              false,
		schedulerv1beta1.ReasonQueueNotFound:         true,
		schedulerv1beta1.ReasonQueueClosed:           true,
		schedulerv1beta1.ReasonNamespaceNotSelected:  true,
		schedulerv1beta1.ReasonQuotaExceeded:         true,
		schedulerv1beta1.ReasonEngineNotReady:        true,
		schedulerv1beta1.ReasonEarlierGroup:          false,
		schedulerv1beta1.ReasonEnoughPods:            false,
		schedulerv1beta1.ReasonTooFewPods:            false,
		schedulerv1beta1.ReasonScheduled:             false,
		schedulerv1beta1.ReasonScheduling:            false,
		schedulerv1beta1.ReasonUnschedulable:         true,
		schedulerv1beta1.ReasonPriorityClassMismatch: true,
		schedulerv1beta1.ReasonMaxDurationExceeded:   false,
		schedulerv1beta1.ReasonNotSupportedByEngine:  false,
	}
	for reason := range podGroups {
		want, isDecided := needsHelp[reason]
		if got := gang.NeedsHelp(reason); got != want || !isDecided {
			t.Errorf("%s needs help: %t in the controllers, want %t (decided: %t)", reason, got, want, isDecided)
		}
	}
}

func TestAnUnknownReasonHasNoWords(t *testing.T) {
	t.Parallel()
	if words := Words("Unheard"); words != "" {
		t.Errorf("an unknown reason has the words %q", words)
	}
}

func TestEveryPageToReadExists(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	pages := regexp.MustCompile(`\bsee\w*(?: +=|:) +"([^"]*)"`)
	count := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages.FindAllSubmatch(content, -1) {
			count++
			if _, err := docs.Find(string(page[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if count < 25 {
		t.Errorf("found %d pages, want at least 25", count)
	}
}
