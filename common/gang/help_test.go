package gang

import "testing"

// The package cli/why has the same property of each reason, and tests compare them.
func TestNeedsHelp(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		"Admitted": false, "Scheduled": false, "Scheduling": false, "EarlierGroup": false, "": false,
		"QuotaExceeded": true, "QueueClosed": true,
	} {
		if got := NeedsHelp(reason); got != want {
			t.Errorf("%q needs help: %t, want %t", reason, got, want)
		}
	}
}
