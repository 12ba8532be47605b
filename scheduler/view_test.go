package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// If an object of a tenant indicates a problem, the problem must not affect the groups of another tenant.
func TestABlockerAffectsTheGroupsOfItsNamespace(t *testing.T) {
	t.Parallel()
	type result struct {
		Blockers  []string
		RequeueAt time.Time
	}
	groups := func() []groupView {
		other := newGroup("other", 1)
		other.Group.Namespace = "elsewhere"
		return []groupView{newGroup("a", 1), other, newGroup("b", 1)}
	}
	for name, tc := range map[string]struct {
		requeueAt time.Time
		blocker   blocker
		want      result
	}{
		"all groups of the namespace are blocked": {
			blocker: newBlocker("no gang scheduling", now),
			want: result{
				Blockers: []string{"no gang scheduling", "", "no gang scheduling"}, RequeueAt: now.Add(30 * time.Second),
			},
		},
		"the queue is reconciled at the earliest time of all blockers": {
			requeueAt: now.Add(time.Second), blocker: newBlocker("no gang scheduling", now),
			want: result{Blockers: []string{"no gang scheduling", "", "no gang scheduling"}, RequeueAt: now.Add(time.Second)},
		},
		"a blocker without a message blocks no groups until the engine is checked again": {
			blocker: blocker{RequeueAt: now.Add(time.Minute)},
			want:    result{Blockers: []string{"", "", ""}, RequeueAt: now.Add(time.Minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := queueView{Groups: groups(), RequeueAt: tc.requeueAt}
			view.block(map[string]blocker{"team": tc.blocker})
			got := result{RequeueAt: view.RequeueAt}
			for _, g := range view.Groups {
				got.Blockers = append(got.Blockers, g.Blocker)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected blockers (-want +got):\n%s", diff)
			}
		})
	}
}
