package policy

import (
	"testing"
	"time"
)

func TestReportsDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// failed is how long before now.
		failed time.Duration
		window time.Duration
		// want is how long from now to wait; 0 is not at all.
		want time.Duration
	}{
		"a failure of this moment":                         {failed: 0, window: 2 * time.Second, want: 2 * time.Second},
		"a failure of a moment ago":                        {failed: 1500 * time.Millisecond, window: 2 * time.Second, want: 500 * time.Millisecond},
		"all have reported":                                {failed: 2 * time.Second, window: 2 * time.Second},
		"the controller was away":                          {failed: time.Hour, window: 2 * time.Second},
		"no window":                                        {failed: 0, window: 0},
		"the clock of the node is a little ahead":          {failed: -time.Second, window: 2 * time.Second, want: 3 * time.Second},
		"the clock of the node is wrong, which is no wait": {failed: -time.Hour, window: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, waits := ReportsDue(now.Add(-tc.failed), now, tc.window)
			if waits != (tc.want > 0) {
				t.Errorf("waits: %t, want %t", waits, tc.want > 0)
			}
			if waits && due.Sub(now) != tc.want {
				t.Errorf("waits for %s, want %s", due.Sub(now), tc.want)
			}
		})
	}
}
