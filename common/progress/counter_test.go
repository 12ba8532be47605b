package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestARestartInPlaceIsCountedUntilTheLimit(t *testing.T) {
	t.Parallel()
	const (
		usedUp = "all restarts in place are used up (maxRestarts: 2)"
		noStep = "there was no new step since the last restart in place"
		first  = "restart in place 1 of 2 (maxRestarts)"
		second = "restart in place 2 of 2 (maxRestarts)"
	)
	after := func(steps ...int64) (last []*int64) {
		for _, step := range steps {
			last = append(last, &step)
		}
		return last
	}
	for name, tc := range map[string]struct {
		steps []*int64 // the last step at each failure
		want  []string
	}{
		"without steps, only the limit counts":                {[]*int64{nil, nil, nil}, []string{first, second, usedUp}},
		"a new step between two failures allows another":      {after(3, 4), []string{first, second}},
		"the same step at two failures does not":              {after(3, 3), []string{first, noStep}},
		"a step that is done again is not new":                {after(3, 2), []string{first, noStep}},
		"two failures before the first step do not either":    {after(-1, -1), []string{first, noStep}},
		"a receiver that has forgotten the steps has no step": {after(3, -1), []string{first, second}},
		"an unknown step is not compared":                     {append(after(3), nil), []string{first, second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewRestartCounter(2)
			var got []string
			for _, step := range tc.steps {
				restarts, explanation := c.Count(Restart{}, step, time.Now())
				got = append(got, explanation)
				if restarts != strings.HasPrefix(explanation, "restart in place") {
					t.Errorf("got %t with the explanation %q", restarts, explanation)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected explanations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARestartCounterKeepsTheLastRestarts(t *testing.T) {
	t.Parallel()
	c, now := NewRestartCounter(10), time.Now()
	killed := func(rank int32) Restart { return Restart{Replica: "worker-1", Rank: &rank, Code: new(int32(-9))} }
	for i := range int32(4) {
		c.Count(killed(i), nil, now.Add(time.Duration(i-5)*time.Second))
	}
	c.Count(Restart{Replica: "<b>"}, nil, now)
	since := func(r Restart, milliseconds int64) Restart { r.Since = milliseconds; return r }
	want := Restarts{Count: 5, Last: []Restart{{}, since(killed(3), 2000), since(killed(2), 3000)}}
	if diff := cmp.Diff(want, c.State(now).Restarts); diff != "" {
		t.Errorf("unexpected restarts (-want +got):\n%s", diff)
	}
	if err := want.validate(); err != nil {
		t.Error(err)
	}
}
