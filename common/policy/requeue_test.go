package policy

import (
	"testing"
	"time"
)

func TestEarlier(t *testing.T) {
	t.Parallel()
	never, soon, later := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for name, tc := range map[string]struct{ a, b, want time.Time }{
		"the earlier time counts":      {a: later, b: soon, want: soon},
		"a later time changes nothing": {a: soon, b: later, want: soon},
		"never and a time is the time": {a: never, b: soon, want: soon},
		"a time and never is the time": {a: soon, b: never, want: soon},
		"never and never is never":     {a: never, b: never, want: never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Earlier(tc.a, tc.b); !got.Equal(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
