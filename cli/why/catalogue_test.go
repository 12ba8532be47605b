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

func TestEveryReasonHasAState(t *testing.T) {
	t.Parallel()
	for _, table := range catalogue {
		for reason, entry := range table {
			if entry.state == unset {
				t.Errorf("%s (%q) has no state", reason, entry.cause)
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
