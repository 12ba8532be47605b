package why

import (
	"testing"

	"tensorstack.dev/jobs/common/gang"
)

// TestControllersAndTheCatalogueAgreeOnHelp compares the catalogue with the function by which the job controllers
// decide whether a job tells its user about a wait for its queue.
func TestControllersAndTheCatalogueAgreeOnHelp(t *testing.T) {
	t.Parallel()
	for reason, entry := range podGroups {
		if got, want := entry.state == needsHelp, gang.NeedsHelp(reason); got != want {
			t.Errorf("%s needs help: %t in the catalogue, %t in the controllers", reason, got, want)
		}
	}
}

// TestTroubleHasWords checks that each reason of a job that waits, needs help or has ended has a short description.
func TestTroubleHasWords(t *testing.T) {
	t.Parallel()
	for _, table := range []map[string]entry{initialized, running, paused, ended, podGroups} {
		for reason, entry := range table {
			if entry.state != fine && Words(reason) == "" {
				t.Errorf("the reason %s has no words", reason)
			}
		}
	}
}

func TestAnUnknownReasonIsNotInTheCatalogue(t *testing.T) {
	t.Parallel()
	if words := Words("Unheard"); words != "" {
		t.Errorf("an unknown reason has the words %q", words)
	}
	if IsTrouble("Unheard") {
		t.Error("an unknown reason is trouble")
	}
}
