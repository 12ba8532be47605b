package v1beta1

import (
	"testing"
	"time"
)

func TestDurationLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[Duration]time.Duration{
		"15d": 15 * 24 * time.Hour, "1h20m15s": time.Hour + 20*time.Minute + 15*time.Second, "2w": 14 * 24 * time.Hour,
		"1y": 365 * 24 * time.Hour, "500ms": 500 * time.Millisecond, "1m30ms": time.Minute + 30*time.Millisecond,
		"": 0, "15": 0, "d": 0, "5x": 0,
	} {
		if got := text.Length(); got != want {
			t.Errorf("the length of %q is %s, want %s", text, got, want)
		}
	}
}
