package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// described compares errors by their reason and message.
var described = cmp.Transformer("described", func(err error) string {
	if refused, isRefused := errors.AsType[*report.RefusedError](err); isRefused {
		return refused.Reason + ": " + refused.Error()
	}
	if err != nil {
		return err.Error()
	}
	return ""
})

// refusedFor returns a *report.RefusedError with a reason and a message.
func refusedFor(reason, message string) error {
	return &report.RefusedError{Reason: reason, Err: errors.New(message)}
}

func refusedByEngine(message string) error {
	return refusedFor(v1beta1.ReasonNotSupportedByEngine, message)
}

// The engines differ in the properties that the test compares.
func TestPropertiesOfEngines(t *testing.T) {
	t.Parallel()
	type properties struct {
		Group, Queue  object
		NotServed     string
		NeedsOneClass bool
		Class         priorityClass
		Blockers      map[string]blocker
	}
	unreported := newGroup("a", 1, newPod(grouped, ofScheduler, onNodeFor(time.Minute)))
	unreported.There = &schedulingv1beta1.PodGroup{}
	for name, tc := range map[string]struct {
		engine engine
		want   properties
	}{
		"kube-scheduler knows no queues, so it needs one class for the priorities of the queue and the group": {
			native{}, properties{
				Group: &schedulingv1beta1.PodGroup{},
				NotServed: "the API server does not serve scheduling.k8s.io/v1beta1: enable the feature gate GenericWorkload " +
					"and --runtime-config=scheduling.k8s.io/v1beta1=true",
				NeedsOneClass: true,
				Class:         priorityClass{Name: "t9k-native-272", Value: 2*101 + 70, Preemption: corev1.PreemptNever},
				Blockers: map[string]blocker{"team": newBlocker("kube-scheduler binds the pods of groups one by one: enable the "+
					"feature gate GenericWorkload in kube-scheduler too, as in the API server", now)},
			},
		},
		"Volcano knows the priorities of queues, so its class is only for the priority of the group": {
			volcano{}, properties{
				Group: &volcanov1beta1.PodGroup{}, Queue: &volcanov1beta1.Queue{},
				NotServed: "the CustomResourceDefinitions of Volcano are not installed",
				Class:     priorityClass{Name: "t9k-volcano-70", Value: 70, Preemption: corev1.PreemptLowerPriority},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := tc.engine
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 2 })
			got := properties{
				e.newGroup(), e.newQueue(), e.notServed(), e.needsOneClass(),
				e.priorityClass(queue, newGroup("a", 1).withPriority(70).Group), e.blockers([]groupView{unreported}, now),
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected properties (-want +got):\n%s", diff)
			}
		})
	}
}

// An engine does not support all parts of the spec of a queue. The controller enforces some of these parts itself
// when it releases pods, so the pods need the gate. About each of the other parts, a condition reports that the
// engine does not support it.
func TestSpecsOfQueuesThatEnginesDoNotSupport(t *testing.T) {
	t.Parallel()
	type support struct {
		Gates  bool
		Limits []string
	}
	limited := func(quota corev1.ResourceList) *v1beta1.Queue {
		return newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: quota} })
	}
	one := cpu("1")[corev1.ResourceCPU]
	fairShare := []string{v1beta1.ConditionFairShareHonoured}
	for name, tc := range map[string]struct {
		queue           *v1beta1.Queue
		native, volcano support
	}{
		"a queue without limits needs no gates": {
			queue: newQueue(nil), native: support{Limits: fairShare},
		},
		"a quota without resources needs no gates": {
			queue: limited(nil), native: support{Limits: fairShare},
		},
		"only Volcano enforces a quota of CPUs": {
			queue: limited(cpu("1")), native: support{Gates: true, Limits: fairShare},
		},
		"no engine enforces a quota of pods": {
			queue:  limited(corev1.ResourceList{corev1.ResourcePods: one}),
			native: support{Gates: true, Limits: fairShare}, volcano: support{Gates: true},
		},
		"no engine enforces a quota of devices": {
			queue:  limited(corev1.ResourceList{gpus: one}),
			native: support{Gates: true, Limits: fairShare}, volcano: support{Gates: true},
		},
		"no engine confines pods to the nodes of their queue": {
			queue: newQueue(func(s *v1beta1.QueueSpec) {
				s.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "training"}}
			}),
			native: support{Gates: true, Limits: fairShare}, volcano: support{Gates: true},
		},
		"kube-scheduler reclaims nothing for a queue with a priority": {
			queue:  newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 1 }),
			native: support{Limits: append(fairShare, v1beta1.ConditionPriorityHonoured)},
		},
		"kube-scheduler still places pods of a closed queue": {
			queue:  newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }),
			native: support{Limits: append(fairShare, v1beta1.ConditionClosedHonoured)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(e engine) support {
				s := support{Gates: e.gates(tc.queue)}
				for _, c := range e.queueLimits(tc.queue) {
					if c.Status == metav1.ConditionFalse && c.Reason == v1beta1.ReasonNotSupportedByEngine && c.Message != "" {
						s.Limits = append(s.Limits, c.Type)
					}
				}
				return s
			}
			want, got := []support{tc.native, tc.volcano}, []support{of(native{}), of(volcano{})}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected support of kube-scheduler and of Volcano (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsOfAQueueThatDoesNotExistNeedNoGates(t *testing.T) {
	t.Parallel()
	if (native{}).gates(nil) || (volcano{}).gates(nil) {
		t.Error("an engine needs gates without a queue")
	}
}

// ofScheduler sets schedulerName of a pod to the name that all pods of queues have.
func ofScheduler(pod *corev1.Pod) { pod.Spec.SchedulerName = v1beta1.SchedulerName }

// If kube-scheduler does not support groups, the only sign is that a group with bound pods lacks the condition
// PodGroupInitiallyScheduled.
func TestGroupsThatKubeSchedulerDoesNotReport(t *testing.T) {
	t.Parallel()
	in := func(namespace string, pods ...*corev1.Pod) groupView {
		g := newGroup("a", 1, pods...)
		g.Group.Namespace, g.There = namespace, &schedulingv1beta1.PodGroup{}
		return g
	}
	memberFor := func(age time.Duration) *corev1.Pod { return newPod(grouped, ofScheduler, onNodeFor(age)) }
	reported := in("b", memberFor(time.Minute))
	reported.There = &schedulingv1beta1.PodGroup{Status: schedulingv1beta1.PodGroupStatus{
		Conditions: []metav1.Condition{{Type: schedulingv1beta1.PodGroupInitiallyScheduled}},
	}}
	unknown := in("a", memberFor(time.Minute))
	unknown.There = nil
	off := newBlocker("kube-scheduler binds the pods of groups one by one: "+
		"enable the feature gate GenericWorkload in kube-scheduler too, as in the API server", now)
	for name, tc := range map[string]struct {
		groups []groupView
		want   map[string]blocker
	}{
		"a group without bound pods need not be reported":                {groups: []groupView{in("a", newPod(grouped))}},
		"a group that kube-scheduler does not have need not be reported": {groups: []groupView{unknown}},
		"kube-scheduler has ten seconds to report a group": {
			groups: []groupView{in("a", memberFor(4*time.Second))},
			want:   map[string]blocker{"a": {RequeueAt: now.Add(6 * time.Second)}},
		},
		"the groups are blocked when the ten seconds are over": {
			groups: []groupView{in("a", memberFor(10*time.Second))}, want: map[string]blocker{"a": off},
		},
		"a group that is not reported blocks only the groups of its namespace": {
			groups: []groupView{in("a", memberFor(time.Minute)), in("b", newPod(grouped))}, want: map[string]blocker{"a": off},
		},
		"a namespace is blocked although another group in it can still be reported": {
			groups: []groupView{in("a", memberFor(time.Minute)), in("a", memberFor(4*time.Second))},
			want:   map[string]blocker{"a": off},
		},
		"no namespace is blocked once kube-scheduler has reported any group": {
			groups: []groupView{in("a", memberFor(time.Minute)), reported},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := native{}.blockers(tc.groups, now)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected blockers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeWhenKubeSchedulerBoundTheFirstPodOfAGroup(t *testing.T) {
	t.Parallel()
	member := newPod(grouped, ofScheduler, onNodeFor(time.Minute))
	boundEarlier := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		return newPod(append([]func(*corev1.Pod){grouped, ofScheduler, onNodeFor(time.Hour)}, changes...)...)
	}
	withCondition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Conditions[0].Type, pod.Status.Conditions[0].Status = kind, status }
	}
	for name, other := range map[string]*corev1.Pod{
		"a pod that was bound later does not count":          newPod(grouped, ofScheduler, onNodeFor(time.Second)),
		"a pod in no group of kube-scheduler does not count": newPod(ofScheduler, onNodeFor(time.Hour)),
		"a pod of another scheduler does not count":          newPod(grouped, onNodeFor(time.Hour)),
		"a pod that has ended does not count":                boundEarlier(failed),
		"a pod that could not be scheduled does not count": boundEarlier(
			withCondition(corev1.PodScheduled, corev1.ConditionFalse)),
		"another condition of a pod does not count": boundEarlier(withCondition(corev1.PodReady, corev1.ConditionTrue)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := now.Add(-time.Minute)
			got := []time.Time{boundSince([]*corev1.Pod{member, other}), boundSince([]*corev1.Pod{other, member})}
			if diff := cmp.Diff([]time.Time{want, want}, got); diff != "" {
				t.Errorf("unexpected times for both orders of the pods (-want +got):\n%s", diff)
			}
		})
	}
}
