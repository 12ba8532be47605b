package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/large"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestCycle checks the order of the steps of a cycle. The observed state is the list of the reads so far, and a
// decision is this list as a text.
func TestCycle(t *testing.T) {
	t.Parallel()
	broken := errors.New("the API server is down")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "training", errors.New("it was changed"))
	for name, tc := range map[string]struct {
		first   map[string]error // results by step: nil means that the step changes the state
		observe error
		act     error
		requeue Requeue
		want    []string
		result  reconcile.Result
		wantErr error
	}{
		"an object that needs nothing more is acted on": {
			want: []string{"observe", "decide cache", "act cache"},
		},
		"a step that changes the state is followed by another decision": {
			first: map[string]error{"live": nil},
			want:  []string{"observe", "decide cache", "live", "decide cache+live", "act cache+live"},
		},
		"each step sees what the step before has read": {
			first: map[string]error{"live": nil, "output": nil},
			want: []string{
				"observe", "decide cache", "live", "decide cache+live", "output", "decide cache+live+output",
				"act cache+live+output",
			},
		},
		"a step that is not needed changes nothing": {
			first: map[string]error{"live": errUnneeded, "output": nil},
			want:  []string{"observe", "decide cache", "live", "output", "decide cache+output", "act cache+output"},
		},
		"nothing is decided if the object cannot be read": {
			observe: broken, want: []string{"observe"}, wantErr: broken,
		},
		"nothing is done if a step fails": {
			first: map[string]error{"live": broken}, want: []string{"observe", "decide cache", "live"}, wantErr: broken,
		},
		"an object is requeued at the time that the action returns": {
			requeue: Requeue{At: now.Add(time.Minute), Priority: new(7)}, want: []string{"observe", "decide cache", "act cache"},
			result: reconcile.Result{RequeueAfter: time.Minute, Priority: new(7)},
		},
		"an object whose time has passed is requeued immediately": {
			requeue: Requeue{At: now.Add(-time.Minute)}, want: []string{"observe", "decide cache", "act cache"},
			result: reconcile.Result{RequeueAfter: time.Millisecond},
		},
		"a failed action is retried with backoff": {
			act: broken, requeue: Requeue{At: now.Add(time.Minute)}, want: []string{"observe", "decide cache", "act cache"},
			wantErr: broken,
		},
		"a conflict is retried when the cache has had time to catch up": {
			act: conflict, requeue: Requeue{At: now.Add(time.Minute)}, want: []string{"observe", "decide cache", "act cache"},
			result: reconcile.Result{RequeueAfter: ConflictDelay},
		},
		"several conflicts are retried like one": {
			act: errors.Join(conflict, conflict), want: []string{"observe", "decide cache", "act cache"},
			result: reconcile.Result{RequeueAfter: ConflictDelay},
		},
		"a conflict does not hide another error": {
			act: errors.Join(conflict, broken), want: []string{"observe", "decide cache", "act cache"}, wantErr: broken,
		},
		"an object that is too large for now waits for memory": {
			observe: large.ErrNoMemory, want: []string{"observe"}, result: reconcile.Result{RequeueAfter: large.Delay},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			note := func(line string) { got = append(got, line) }
			cycle := Cycle[[]string, string]{
				Clock: testclock.NewFakePassiveClock(now),
				Observe: func(context.Context) ([]string, error) {
					note("observe")
					return []string{"cache"}, tc.observe
				},
				Decide: func(seen []string) string {
					d := strings.Join(seen, "+")
					note("decide " + d)
					return d
				},
				Act: func(_ context.Context, _ []string, d string) (Requeue, error) {
					note("act " + d)
					return tc.requeue, tc.act
				},
			}
			for _, step := range []string{"live", "output"} {
				err, isTaken := tc.first[step]
				if !isTaken {
					continue
				}
				cycle.First = append(cycle.First, func(_ context.Context, seen *[]string, _ string) (bool, error) {
					note(step)
					if errors.Is(err, errUnneeded) {
						return false, nil
					}
					*seen = append(*seen, step)
					return true, err
				})
			}
			result, err := cycle.Run(t.Context())
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.result, result); diff != "" {
				t.Errorf("unexpected result (-want +got):\n%s", diff)
			}
		})
	}
}

// errUnneeded is the result of a step that is not needed.
var errUnneeded = errors.New("the step is not needed")

func TestTheEarliestTimeToRequeueCounts(t *testing.T) {
	t.Parallel()
	var requeue Requeue
	for _, step := range []struct{ by, want time.Time }{
		{by: time.Time{}, want: time.Time{}},
		{by: now.Add(time.Hour), want: now.Add(time.Hour)},
		{by: now, want: now},
		{by: now.Add(time.Minute), want: now},
		{by: time.Time{}, want: now},
	} {
		if requeue.By(step.by); !requeue.At.Equal(step.want) {
			t.Errorf("after By(%s), the time is %s, want %s", step.by, requeue.At, step.want)
		}
	}
}
