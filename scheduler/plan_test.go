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

func TestConditionsOfGroup(t *testing.T) {
	t.Parallel()
	closed := newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true })
	small := newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: cpu("1")} })
	type conditions struct{ Admitted, Sufficient, Scheduled string }
	cases := map[string]struct {
		queue       *v1beta1.Queue
		group       groupView
		blocker     blocker
		want        conditions
		wantMessage string
	}{
		"the queue does not exist": {
			group:       newGroup("a", 1),
			want:        conditions{"QueueNotFound", "TooFewPods", "QueueNotFound"},
			wantMessage: `0 of 1 pods are on nodes: there is no Queue "lab"`,
		},
		"the queue is deleted while the group runs": {
			group:       newGroup("a", 1, newPod(running)),
			want:        conditions{"QueueNotFound", "EnoughPods", "Scheduled"},
			wantMessage: "the pods that the group needs are on nodes",
		},
		"the queue is closed": {
			queue: closed, group: newGroup("a", 1, newPod()),
			want:        conditions{"QueueClosed", "EnoughPods", "QueueClosed"},
			wantMessage: `0 of 1 pods are on nodes: Queue "lab" is closed`,
		},
		"the queue is closed while the group runs": {
			queue: closed, group: newGroup("a", 1, newPod(running)),
			want:        conditions{"QueueClosed", "EnoughPods", "Scheduled"},
			wantMessage: "the pods that the group needs are on nodes",
		},
		"the queue does not select the namespace": {
			queue: newQueue(nil), group: func() groupView { g := newGroup("a", 1); g.Selected = false; return g }(),
			want:        conditions{"NamespaceNotSelected", "TooFewPods", "NamespaceNotSelected"},
			wantMessage: `0 of 1 pods are on nodes: the namespaceSelector of Queue "lab" does not select namespace "team"`,
		},
		"the engine cannot schedule groups": {
			queue: newQueue(nil), group: newGroup("a", 1), blocker: newBlocker("no gates", now),
			want:        conditions{"EngineNotReady", "TooFewPods", "EngineNotReady"},
			wantMessage: "0 of 1 pods are on nodes: no gates",
		},
		"pods of an earlier group with the name have not ended": {
			queue: newQueue(nil), group: func() groupView {
				g := newGroup("a", 1)
				g.Blocker, g.WaitsForEarlier = "kube-scheduler still has a", true
				return g
			}(),
			want:        conditions{"EarlierGroup", "TooFewPods", "EarlierGroup"},
			wantMessage: "0 of 1 pods are on nodes: kube-scheduler still has a",
		},
		"a long message is truncated": {
			queue: newQueue(nil), group: newGroup("a", 1), blocker: newBlocker(strings.Repeat("x", 100_000), now),
			want:        conditions{"EngineNotReady", "TooFewPods", "EngineNotReady"},
			wantMessage: "0 of 1 pods are on nodes: " + strings.Repeat("x", 8192-29) + "...",
		},
		"a pod does not exist yet": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod()),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "1 of 2 pods exist",
		},
		"the pods of a role do not exist yet": {
			queue: newQueue(nil), group: func() groupView {
				g := newGroup("a", 2, newPod(withRole("worker")), newPod(withRole("worker")))
				g.Group.Spec.Roles = []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}}
				return g
			}(),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "2 of 2 pods exist, 1 more of role master needed",
		},
		"gated pods do not fit the quota": {
			queue: small, group: newGroup("a", 2, newPod(gated), newPod(gated)),
			want:        conditions{"Admitted", "EnoughPods", "QuotaExceeded"},
			wantMessage: `0 of 2 pods are on nodes: not enough cpu left in the quota of Queue "lab"`,
		},
		"pods that the engine does not place do not fit the quota": {
			queue: small, group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable)),
			want:        conditions{"Admitted", "EnoughPods", "QuotaExceeded"},
			wantMessage: `0 of 2 pods are on nodes: not enough cpu left in the quota of Queue "lab"`,
		},
		"a pod has the PriorityClass of another group": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(gated, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 1 pods are on nodes: pod a-0 has PriorityClass "t9k-native-1010", ` +
				`but its group has "t9k-native-10": delete the pod, and set no priorityClassName in its replacement`,
		},
		"a pod lacks the PriorityClass of its group, and the engine needs the same class for all": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(gated, ofClass("t9k-native-10")), newPod(gated)).
				ofClass("t9k-native-10"),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 2 pods are on nodes: pod a-1 has PriorityClass "", but its group has "t9k-native-10": ` +
				`delete the pod, and set no priorityClassName in its replacement`,
		},
		"the pods do not fit any node": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable)),
			want:        conditions{"Admitted", "EnoughPods", "Unschedulable"},
			wantMessage: "0 of 2 pods are on nodes: 0/3 nodes are available",
		},
		"pods do not fit for different reasons: the message is about the oldest pod": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(unschedulable), newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Message = "1/3 nodes are available"
			})),
			want:        conditions{"Admitted", "EnoughPods", "Unschedulable"},
			wantMessage: "0 of 2 pods are on nodes: 0/3 nodes are available",
		},
		"it is unknown whether a pod is scheduled": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Status = corev1.ConditionUnknown
			})),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 1 pods are on nodes: no scheduler named t9k-scheduler has tried to place the other pods yet",
		},
		"the scheduler has not tried a pod since its gate was removed": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(unschedulable, func(pod *corev1.Pod) {
				pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			})),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 1 pods are on nodes: no scheduler named t9k-scheduler has tried to place the other pods yet",
		},
		"the ResourceClaim of a pod does not exist": {
			queue: newQueue(nil), group: newGroup("a", 1, newPod(gated, func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{annotationUncounted: "gpus"}
			})),
			want: conditions{"Admitted", "EnoughPods", "QuotaExceeded"},
			wantMessage: `0 of 1 pods are on nodes: the quota of Queue "lab" limits devices, but those of pod a-0 cannot be ` +
				"counted: ResourceClaim gpus does not exist or has too many DeviceClasses",
		},
		"two pods have the PriorityClasses of other groups: the message is about the first": {
			queue: newQueue(nil), group: newGroup("a", 2,
				newPod(gated, ofClass("t9k-native-1010")), newPod(gated, ofClass("t9k-native-2020"))).ofClass("t9k-native-10"),
			want: conditions{"Admitted", "EnoughPods", "PriorityClassMismatch"},
			wantMessage: `0 of 2 pods are on nodes: pod a-0 has PriorityClass "t9k-native-1010", ` +
				`but its group has "t9k-native-10": delete the pod, and set no priorityClassName in its replacement`,
		},
		"pods with the PriorityClass of another group are ungated or being deleted": {
			queue: newQueue(nil), group: newGroup("a", 2,
				newPod(ofClass("t9k-native-1010")), newPod(gated, deleting, ofClass("t9k-native-1010"))).ofClass("t9k-native-10"),
			want:        conditions{"Admitted", "TooFewPods", "TooFewPods"},
			wantMessage: "1 of 2 pods exist",
		},
		"the pod of one role is not on a node": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(running, withRole("worker")), newPod(withRole("master"))).
				withRoles(v1beta1.PodGroupRole{Name: "master", MinMember: 1}, v1beta1.PodGroupRole{Name: "worker", MinMember: 1}),
			want: conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "1 of 2 pods are on nodes, 1 more of role master needed: " +
				"no scheduler named t9k-scheduler has tried to place the other pods yet",
		},
		"the scheduler has not tried to place any pod": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(), newPod()),
			want:        conditions{"Admitted", "EnoughPods", "Scheduling"},
			wantMessage: "0 of 2 pods are on nodes: no scheduler named t9k-scheduler has tried to place the other pods yet",
		},
		"one pod runs and one has succeeded": {
			queue: newQueue(nil), group: newGroup("a", 2, newPod(running), newPod(succeeded)),
			want:        conditions{"Admitted", "EnoughPods", "Scheduled"},
			wantMessage: "the pods that the group needs are on nodes",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := decide(native{}, queueView{
				Queue: tc.queue, Groups: []groupView{tc.group}, Blocker: tc.blocker,
			}, now).Groups["team/a"]
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
			again := decide(native{}, queueView{
				Queue: tc.queue, Groups: []groupView{tc.group}, Blocker: tc.blocker,
			}, now.Add(time.Minute)).Groups["team/a"]
			if diff := cmp.Diff(status, again); diff != "" {
				t.Errorf("the status changes although only time has passed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStatusOfQueue(t *testing.T) {
	t.Parallel()
	view := queueView{Queue: newQueue(nil), Groups: []groupView{
		newGroup("a", 2, newPod(running), newPod(running)), newGroup("b", 2, newPod(), newPod(succeeded)),
		newGroup("foreign", 2, newPod(running), newPod(succeeded)).unselected(),
	}}
	got := decide(native{}, view, now).Queue
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

// A condition reports each part of the spec that the engine does not support, until the part is removed from the
// spec.
func TestUnsupportedSpecsOfGroups(t *testing.T) {
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
		"kube-scheduler ignores roles if there are more pods than needed": {
			native{}, led(grouped, grouped, grouped), []string{"RolesHonoured"},
		},
		"a group without roles has none that kube-scheduler could ignore": {
			native{}, newGroup("a", 2, grouped, grouped, grouped), nil,
		},
		"kube-scheduler honors roles if there are no more pods than needed": {native{}, led(grouped, grouped), nil},
		"kube-scheduler honors roles if the other pods are extra": {
			native{}, led(grouped, grouped, newPod(gated, extra)), nil,
		},
		"Volcano honors roles": {volcano{}, led(newPod(), newPod(), newPod()), nil},
		"no engine honors a topologyPolicy": {volcano{}, func() groupView {
			g := newGroup("a", 1)
			g.Group.Spec.TopologyPolicy = "rack"
			return g
		}(), []string{"TopologyHonoured"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range decide(tc.engine, queueView{
				Queue: newQueue(nil), Groups: []groupView{tc.group},
			}, now).Groups["team/a"].Conditions {
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

func TestStatusOfGroup(t *testing.T) {
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
		want  v1beta1.PodGroupStatus
	}{
		"an admitted group has the PriorityClass of the engine's group": {
			queue: newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: cpu("8")} }),
			want: v1beta1.PodGroupStatus{
				ObservedGeneration: 3, Gated: true, PriorityClassName: "t9k-native-10", Allocated: cpu("1"),
				PodCounts: v1beta1.PodCounts{Running: 1, Succeeded: 1},
				Conditions: conditions(
					metav1.Condition{
						Status: "True", Reason: "Admitted", Message: `Queue "lab" takes the group`,
						LastTransitionTime: before,
					},
					enough, onNodes),
			},
		},
		"a group that is no longer admitted keeps its PriorityClass": {
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
			got := decide(native{}, view, now).Groups["team/a"]
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected status (-want +got):\n%s", diff)
			}
			if view.Groups[0].Admission.Type != "" {
				t.Error("decide changed its argument")
			}
		})
	}
}

func TestConditionsOfQueue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue *v1beta1.Queue
		want  metav1.Condition
	}{
		"a queue that is open": {
			newQueue(nil), metav1.Condition{Status: "True", Reason: "Open", Message: "the queue is open"},
		},
		"a queue that is closed": {
			newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }),
			metav1.Condition{
				Status: "False", Reason: "QueueClosed", Message: "spec.closed is true: the queue allocates no more resources",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(native{}, queueView{Queue: tc.queue}, now).Queue.Conditions
			want := append([]metav1.Condition{tc.want}, native{}.queueLimits(tc.queue)...)
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
