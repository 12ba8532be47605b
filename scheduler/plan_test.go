package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestConditionsOfAGroup(t *testing.T) {
	t.Parallel()
	closed := newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true })
	small := newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: cpu("1")} })
	type conditions struct{ Admitted, Sufficient, Scheduled string }
	cases := map[string]struct {
		queue       *v1beta1.Queue
		group       groupView
		hindrance   hindrance
		want        conditions
		wantMessage string
	}{
		"a queue that is not there": {
			group:       newGroup("a", 1),
			want:        conditions{"QueueNotFound", "TooFewPods", "QueueNotFound"},
			wantMessage: `0 of 1 pods are on nodes: there is no Queue "lab"`,
		},
		"a queue that is closed": {
			queue: closed, group: newGroup("a", 1, newPod()),
			want:        conditions{"QueueClosed", "EnoughPods", "QueueClosed"},
			wantMessage: `0 of 1 pods are on nodes: Queue "lab" is closed`,
		},
		"a queue that is closed while the group runs": {
			queue: closed, group: newGroup("a", 1, newPod(running)),
			want:        conditions{"QueueClosed", "EnoughPods", "Scheduled"},
			wantMessage: "the pods that the group needs are on nodes",
		},
		"a namespace that the queue does not take": {
			queue: newQueue(nil), group: func() groupView { g := newGroup("a", 1); g.Selected = false; return g }(),
			want:        conditions{"NamespaceNotSelected", "TooFewPods", "NamespaceNotSelected"},
			wantMessage: `0 of 1 pods are on nodes: Queue "lab" does not take groups of namespace "team": its namespaceSelector does not select it`,
		},
		"an engine that lacks something": {
			queue: newQueue(nil), group: newGroup("a", 1), hindrance: hindered("no gates"),
			want:        conditions{"EngineNotReady", "TooFewPods", "EngineNotReady"},
			wantMessage: "0 of 1 pods are on nodes: no gates",
		},
		"a refusal that quotes much is cut": {
			queue: newQueue(nil), group: newGroup("a", 1), hindrance: hindered(strings.Repeat("x", 100_000)),
			want:        conditions{"EngineNotReady", "TooFewPods", "EngineNotReady"},
			wantMessage: "0 of 1 pods are on nodes: " + strings.Repeat("x", 8192-29) + "...",
		},
		"pods that do not exist yet": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod()),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "1 of 2 pods exist",
		},
		"a role of which pods do not exist yet": {
			queue: newQueue(nil), group: func() groupView {
				g := newGroup("a", 2, newPod(withRole("worker")), newPod(withRole("worker")))
				g.Group.Spec.Roles = []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}
				return g
			}(),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "2 of 2 pods exist, 1 of role master are missing",
		},
		"a quota with too little left": {
			queue: small, group: newGroup("a", 2, newPod(gated), newPod(gated)),
			want:        conditions{"Admitted", "EnoughPods", "QuotaExceeded"},
			wantMessage: `0 of 2 pods are on nodes: the quota of Queue "lab" has too little cpu left`,
		},
		"a quota with too little left for pods that the engine holds back": {
			queue: small, group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable)),
			want:        conditions{"Admitted", "EnoughPods", "QuotaExceeded"},
			wantMessage: `0 of 2 pods are on nodes: the quota of Queue "lab" has too little cpu left`,
		},
		"a pod with the PriorityClass of another group": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 1 pods are on nodes: pod a-0 has the PriorityClass "t9k-native-1010", ` +
				`and the group has "t9k-native-10": delete the pod, and name no PriorityClass for its successor`,
		},
		"a pod without the PriorityClass of its group, on an engine that needs one": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(gated, ofClass("t9k-native-10")), newPod(gated)).
				ofClass("t9k-native-10").ofOneClass(),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 2 pods are on nodes: pod a-1 has the PriorityClass "", and the group has "t9k-native-10": ` +
				`delete the pod, and name no PriorityClass for its successor`,
		},
		"pods that do not fit": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable)),
			want:        conditions{"Admitted", "EnoughPods", "Unschedulable"},
			wantMessage: "0 of 2 pods are on nodes: 0/3 nodes are available",
		},
		"pods that do not fit for several reasons, of which the first by age is told": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Message = "1/3 nodes are available"
			})),
			want:        conditions{"Admitted", "EnoughPods", "Unschedulable"},
			wantMessage: "0 of 2 pods are on nodes: 0/3 nodes are available",
		},
		"a pod of which the scheduler does not know yet": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Status = corev1.ConditionUnknown
			})),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 1 pods are on nodes: no scheduler named t9k-scheduler has tried the others yet",
		},
		"a pod that was not tried since it was gated": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			})),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 1 pods are on nodes: no scheduler named t9k-scheduler has tried the others yet",
		},
		"two pods with the PriorityClass of another group, of which the first is told": {
			queue: newQueue(nil), group: newGroup("a", 2,
				newPod(gated, ofClass("t9k-native-1010")), newPod(gated, ofClass("t9k-native-2020"))).ofClass("t9k-native-10"),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 2 pods are on nodes: pod a-0 has the PriorityClass "t9k-native-1010", ` +
				`and the group has "t9k-native-10": delete the pod, and name no PriorityClass for its successor`,
		},
		"a pod with the PriorityClass of another group that is through, or is being deleted": {
			queue: newQueue(nil), group: newGroup("a", 2,
				newPod(ofClass("t9k-native-1010")), newPod(gated, deleting, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "1 of 2 pods exist",
		},
		"roles of which one is missing on nodes": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(running, withRole("worker")), newPod(withRole("master"))).
				withRoles(v1beta1.PodGroupRole{Name: "master", MinMember: 1}, v1beta1.PodGroupRole{Name: "worker", MinMember: 1}),
			want: conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "1 of 2 pods are on nodes, 1 of role master are missing: " +
				"no scheduler named t9k-scheduler has tried the others yet",
		},
		"pods that the scheduler has not looked at": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(), newPod()),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 2 pods are on nodes: no scheduler named t9k-scheduler has tried the others yet",
		},
		"pods of which one has succeeded": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(running), newPod(succeeded)),
			want:        conditions{"Admitted", "EnoughPods", "Scheduled"},
			wantMessage: "the pods that the group needs are on nodes",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := plan(queueView{
				Queue: tc.queue, Groups: []groupView{tc.group}, Hindrance: tc.hindrance,
			}, false, nil, now).Groups["team/a"]
			reason := func(name string) string { return meta.FindStatusCondition(status.Conditions, name).Reason }
			got := conditions{
				reason(v1beta1.ConditionAdmitted), reason(v1beta1.ConditionSufficientGroupMember),
				reason(v1beta1.ConditionGroupScheduled),
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected reasons (-want +got):\n%s", diff)
			}
			message := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionGroupScheduled).Message
			if diff := cmp.Diff(tc.wantMessage, message); diff != "" {
				t.Errorf("unexpected message (-want +got):\n%s", diff)
			}
			tc.group.Group.Status = status
			again := plan(queueView{
				Queue: tc.queue, Groups: []groupView{tc.group}, Hindrance: tc.hindrance,
			}, false, nil, now.Add(time.Minute)).Groups["team/a"]
			if diff := cmp.Diff(status, again); diff != "" {
				t.Errorf("that time passes changes the status (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStatusOfAQueue(t *testing.T) {
	t.Parallel()
	view := queueView{Queue: newQueue(nil), Groups: []groupView{
		newGroup("a", 2, newPod(running), newPod(running)), newGroup("b", 2, newPod(), newPod(succeeded)),
		newGroup("foreign", 2, newPod(running), newPod(succeeded)).unselected(),
	}}
	got := plan(view, false, nil, now).Queue
	if diff := cmp.Diff(v1beta1.PodCounts{Pending: 1, Running: 2, Succeeded: 1}, got.Pods); diff != "" {
		t.Errorf("unexpected counts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cpu("2"), got.Allocated); diff != "" {
		t.Errorf("unexpected resources (-want +got):\n%s", diff)
	}
	if got.PodGroups.Total != 2 || got.ObservedGeneration != 2 {
		t.Errorf("got %d groups at generation %d, want 2 at 2", got.PodGroups.Total, got.ObservedGeneration)
	}
}

// What the engine cannot do of a spec is said as long as the spec asks for it.
func TestLimitsOfAGroup(t *testing.T) {
	t.Parallel()
	led := func(pods ...*corev1.Pod) groupView {
		g := newGroup("a", 2, pods...)
		g.Group.Spec.Roles = []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}
		return g
	}
	grouped := newPod(grouped)
	for name, tc := range map[string]struct {
		engine engine
		group  groupView
		want   []string
	}{
		"kube-scheduler takes any of more pods than needed": {
			&native{}, led(grouped, grouped, grouped), []string{"RolesHonoured"},
		},
		"but of as many as needed it takes all":     {&native{}, led(grouped, grouped), nil},
		"those that a job can do without are apart": {&native{}, led(grouped, grouped, newPod(gated, extra)), nil},
		"Volcano knows roles":                       {&volcano{}, led(newPod(), newPod(), newPod()), nil},
		"nobody knows topologies": {&volcano{}, func() groupView {
			g := newGroup("a", 1)
			g.Group.Spec.TopologyPolicy = "rack"
			return g
		}(), []string{"TopologyHonoured"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.group.Limits = tc.engine.groupLimits(tc.group)
			var got []string
			for _, c := range plan(queueView{
				Queue: newQueue(nil), Groups: []groupView{tc.group},
			}, false, nil, now).Groups["team/a"].Conditions {
				if c.Status == metav1.ConditionFalse && c.Reason == v1beta1.ReasonNotSupportedByEngine {
					got = append(got, c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusOfAGroup(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(now.Add(-time.Hour))
	conditions := func(admitted, sufficient, scheduled metav1.Condition) []metav1.Condition {
		admitted.Type, sufficient.Type, scheduled.Type = "Admitted", "SufficientGroupMember", "GroupScheduled"
		list := []metav1.Condition{admitted, sufficient, scheduled}
		for i := range list {
			list[i].ObservedGeneration = 3
			if list[i].LastTransitionTime.IsZero() {
				list[i].LastTransitionTime = metav1.NewTime(now)
			}
		}
		return list
	}
	enough := metav1.Condition{Status: "True", Reason: "EnoughPods", Message: "there are as many pods as the group needs"}
	onNodes := metav1.Condition{Status: "True", Reason: "Scheduled", Message: "the pods that the group needs are on nodes"}
	for name, tc := range map[string]struct {
		queue *v1beta1.Queue
		gated bool
		want  v1beta1.PodGroupStatus
	}{
		"a group that is admitted has the class that the engine has for it": {
			queue: newQueue(nil), gated: true,
			want: v1beta1.PodGroupStatus{
				ObservedGeneration: 3, Gated: true, PriorityClassName: "t9k-native-10", Allocated: cpu("1"),
				PodCounts: v1beta1.PodCounts{Running: 1, Succeeded: 1},
				Conditions: conditions(
					metav1.Condition{
						Status: "True", Reason: "Admitted", Message: `Queue "lab" takes the group`, LastTransitionTime: before,
					},
					enough, onNodes),
			},
		},
		"a group that is no longer admitted keeps the class that it had": {
			queue: newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }),
			want: v1beta1.PodGroupStatus{
				ObservedGeneration: 3, PriorityClassName: "before", Allocated: cpu("1"),
				PodCounts: v1beta1.PodCounts{Running: 1, Succeeded: 1},
				Conditions: conditions(
					metav1.Condition{Status: "False", Reason: "QueueClosed", Message: `Queue "lab" is closed`}, enough, onNodes),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup("a", 2, newPod(running), newPod(succeeded)).ofClass("t9k-native-10")
			g.Admission = metav1.Condition{}
			g.Group.Status.PriorityClassName = "before"
			g.Group.Status.Conditions = []metav1.Condition{{Type: "Admitted", Status: "True", LastTransitionTime: before}}
			view := queueView{Queue: tc.queue, Groups: []groupView{g}}
			got := plan(view, tc.gated, nil, now).Groups["team/a"]
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected status (-want +got):\n%s", diff)
			}
			if view.Groups[0].Admission.Type != "" {
				t.Error("the view that was passed is changed")
			}
		})
	}
}

func TestConditionsOfAQueue(t *testing.T) {
	t.Parallel()
	limit := metav1.Condition{Type: "FairShareHonoured", Status: "False", Reason: "NotSupportedByEngine"}
	for name, tc := range map[string]struct {
		queue *v1beta1.Queue
		want  metav1.Condition
	}{
		"a queue that is open": {
			newQueue(nil), metav1.Condition{Status: "True", Reason: "Open", Message: "the queue allocates"},
		},
		"a queue that is closed": {
			newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }),
			metav1.Condition{Status: "False", Reason: "QueueClosed", Message: "spec.closed is true: nothing more is allocated"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan(queueView{Queue: tc.queue}, false, []metav1.Condition{limit}, now).Queue.Conditions
			want := []metav1.Condition{tc.want, limit}
			want[0].Type = "Active"
			for i := range want {
				want[i].ObservedGeneration, want[i].LastTransitionTime = 2, metav1.NewTime(now)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected conditions (-want +got):\n%s", diff)
			}
		})
	}
}
