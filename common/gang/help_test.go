package gang

import "testing"

// The package cli/why has the same property of each reason, and a test compares them.
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
