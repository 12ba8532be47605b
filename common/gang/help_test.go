package gang

import "testing"

// A test of the package cli/why has the wanted result for each reason of a PodGroup.
func TestNeedsHelp(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		"Unschedulable":         true,
		"QuotaExceeded":         true,
		"QueueNotFound":         true,
		"QueueClosed":           true,
		"NamespaceNotSelected":  true,
		"EngineNotReady":        true,
		"PriorityClassMismatch": true,
		"Admitted":              false,
		"Scheduled":             false,
		"Scheduling":            false,
		"EarlierGroup":          false,
		"":                      false,
	} {
		if got := NeedsHelp(reason); got != want {
			t.Errorf("%q needs help: %t, want %t", reason, got, want)
		}
	}
}
