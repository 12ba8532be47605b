package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// existing returns the PriorityClass that the controller created for class an hour ago.
func existing(class priorityClass) *schedulingv1.PriorityClass {
	there, _, _ := class.check(nil, now)
	there.CreationTimestamp = ago(time.Hour)
	return there
}

func TestWhatTheEngineMustHaveForAQueue(t *testing.T) {
	t.Parallel()
	const ofPriority = "t9k-native-10" // the class of a group without a priority, in a queue without a priority
	class := existing(native{}.priorityClass(newQueue(nil), newGroup("a", 2).Group))
	created := class.DeepCopy()
	created.CreationTimestamp = metav1.Time{}
	changed := class.DeepCopy()
	changed.Value = 99
	// a returns the PodGroup "a" without a group of the engine.
	a := func() groupView {
		g := newGroup("a", 2)
		g.Group.UID = "uid"
		return g
	}
	known, blocked, stolen := a(), a(), a()
	known.There = nativeGroup(2, "site")
	blocked.Blocker = "kube-scheduler does not schedule groups"
	other := nativeGroup(2, ofPriority)
	other.ObjectMeta = metaOfGroup("other")
	stolen.There = other
	foreignQueue := volcanoQueue(controlledBy("earlier"))
	limited := newQueue(func(s *v1beta1.QueueSpec) { s.Priority, s.Quota = 3, &v1beta1.QueueQuota{Requests: cpu("8")} })
	limited.UID = "uid"
	needs := groupChange{change: change{After: nativeGroup(2, ofPriority)}, ClassInForce: ofPriority}
	for name, tc := range map[string]struct {
		engine engine
		view   queueView
		class  *schedulingv1.PriorityClass
		want   *engineChanges
	}{
		"a PriorityClass that does not exist is created before the group": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{a()}},
			want: &engineChanges{Groups: []groupChange{
				{NewClass: created, IsClassNew: true, change: needs.change, ClassInForce: needs.ClassInForce},
			}},
		},
		"each admitted group needs a group of the engine, and the others need none": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{a().unselected(), a(), blocked, known}}, class: class,
			want: &engineChanges{Groups: []groupChange{{}, needs, {}, {ClassInForce: "site"}}},
		},
		"a problem with one group does not affect the others": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{stolen, a()}}, class: class,
			want: &engineChanges{Groups: []groupChange{
				{Err: refusedFor("NameConflict", "the PodGroup needs podgroup a of scheduling.k8s.io, but one exists that "+
					"belongs to PodGroup a (UID other): rename the PodGroup, or delete that PodGroup")}, needs,
			}},
		},
		"a group whose PriorityClass is refused is not created": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{a()}}, class: changed,
			want: &engineChanges{Groups: []groupChange{{Err: refusedByEngine("PriorityClass t9k-native-10 has the value 99 " +
				"and preemptionPolicy Never, want 10 and Never: delete it")}}},
		},
		"nothing is needed without a queue": {
			engine: volcano{}, view: queueView{Groups: []groupView{a()}}, want: &engineChanges{Groups: []groupChange{{}}},
		},
		"nothing is needed while the engine cannot schedule any group": {
			engine: volcano{},
			view:   queueView{Queue: limited, Groups: []groupView{a()}, Blocker: newBlocker("not installed", now)},
			want:   &engineChanges{Groups: []groupChange{{}}},
		},
		"Volcano needs a queue": {
			engine: volcano{}, view: queueView{Queue: limited},
			want: &engineChanges{
				Queue:      change{After: volcanoQueue()},
				QueueState: change{Before: volcanoQueue(), After: volcanoQueue(inStateWith("Open", corev1.ResourceList{}))},
				Groups:     []groupChange{},
			},
		},
		"no group is created if the queue of Volcano belongs to another Queue": {
			engine: volcano{}, view: queueView{Queue: limited, Groups: []groupView{a()}, There: foreignQueue},
			want: &engineChanges{
				QueueErr: refusedFor("NameConflict", "the Queue needs queue lab of scheduling.volcano.sh, but one exists that "+
					"belongs to Queue lab (UID earlier): rename the Queue, or delete that Queue"),
				Groups: []groupChange{{}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.engine == nil {
				tc.engine = native{}
			}
			tc.view.Classes = map[string]*schedulingv1.PriorityClass{ofPriority: tc.class}
			got := ensure(tc.engine, tc.view, now)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(groupChange{}), described); diff != "" {
				t.Errorf("the engine must have something else (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCameOfTheWritesInTheEngine(t *testing.T) {
	t.Parallel()
	type group struct {
		Class, Blocker           string
		WaitsForEarlier, Unknown bool
	}
	type result struct {
		Blocker   blocker
		Groups    []group
		RequeueIn time.Duration
		Err       error
	}
	down := errors.New("the API server is down")
	refused := refusedByEngine("the group is refused")
	for name, tc := range map[string]struct {
		ensured   engineChanges
		requeueIn time.Duration
		want      result
	}{
		"groups have the PriorityClass of the engine's group": {
			ensured: engineChanges{Groups: []groupChange{{ClassInForce: "site"}, {ClassInForce: "t9k-native-10"}}},
			want:    result{Groups: []group{{Class: "site"}, {Class: "t9k-native-10"}}},
		},
		"a refused queue blocks all groups": {
			ensured: engineChanges{QueueErr: refusedByEngine("the queue is refused"), Groups: make([]groupChange, 1)},
			want:    result{Blocker: newBlocker("the queue is refused", now), Groups: make([]group, 1)},
		},
		"the state of no group is known if writing the queue failed": {
			ensured: engineChanges{QueueErr: down, Groups: []groupChange{{ClassInForce: "site"}, {Err: refused}}},
			want:    result{Groups: []group{{Unknown: true}, {Unknown: true}}, Err: down},
		},
		"the state of a group is not known if writing it failed, and the others do not wait for it": {
			ensured: engineChanges{Groups: []groupChange{{Err: down}, {ClassInForce: "site"}}},
			want:    result{Groups: []group{{Unknown: true}, {Class: "site"}}, Err: down},
		},
		"a refused group is retried after half a minute, since somebody must remove the cause": {
			ensured: engineChanges{Groups: []groupChange{{Err: refused}, {ClassInForce: "site"}}},
			want:    result{Groups: []group{{Blocker: "the group is refused"}, {Class: "site"}}, RequeueIn: 30 * time.Second},
		},
		"a group that is refused because of its new PriorityClass is retried after a second": {
			ensured: engineChanges{Groups: []groupChange{{Err: refused, IsClassNew: true}}},
			want:    result{Groups: []group{{Blocker: "the group is refused"}}, RequeueIn: time.Second},
		},
		"a group that waits for an earlier group is retried after a second": {
			ensured: engineChanges{
				Groups: []groupChange{{Err: refusedFor("EarlierGroup", "pods have not ended")}, {Err: refused}},
			},
			want: result{
				Groups: []group{
					{Blocker: "pods have not ended", WaitsForEarlier: true}, {Blocker: "the group is refused"},
				},
				RequeueIn: time.Second,
			},
		},
		"the queue is not reconciled later than it must be for another reason": {
			ensured: engineChanges{Groups: []groupChange{{Err: refused}}}, requeueIn: 2 * time.Second,
			want: result{Groups: []group{{Blocker: "the group is refused"}}, RequeueIn: 2 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := queueView{Queue: newQueue(nil)}
			for range tc.ensured.Groups {
				view.Groups = append(view.Groups, newGroup("a", 1))
			}
			if tc.requeueIn > 0 {
				view.RequeueAt = now.Add(tc.requeueIn)
			}
			got := result{Err: view.settle(&tc.ensured, now), Blocker: view.Blocker, RequeueIn: until(view.RequeueAt)}
			for _, g := range view.Groups {
				got.Groups = append(got.Groups, group{g.ClassInForce, g.Blocker, g.WaitsForEarlier, g.Unknown})
			}
			if diff := cmp.Diff(tc.want, got, described); diff != "" {
				t.Errorf("unexpected view (-want +got):\n%s", diff)
			}
		})
	}
}
