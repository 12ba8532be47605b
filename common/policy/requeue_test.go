package policy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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

func TestAfter(t *testing.T) {
	t.Parallel()
	start := metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		start   *metav1.Time
		seconds *int32
		want    time.Time
	}{
		"the seconds count from the start":        {&start, ptr.To[int32](90), start.Add(90 * time.Second)},
		"after 0 seconds it is due immediately":   {&start, ptr.To[int32](0), start.Time},
		"without a number of seconds it is never": {&start, nil, time.Time{}},
		"without a start it is never":             {nil, ptr.To[int32](90), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := After(tc.start, tc.seconds); !got.Equal(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIsDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(2, 0)
	for name, tc := range map[string]struct {
		due  time.Time
		want bool
	}{
		"a time is due when it has come":  {now, true},
		"a time is due after it has come": {now.Add(-time.Second), true},
		"a later time is not due":         {now.Add(time.Second), false},
		"never is not due":                {time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := IsDue(tc.due, now); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
