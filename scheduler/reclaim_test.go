package scheduler

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestQueueThatResourcesAreReclaimedFor(t *testing.T) {
	t.Parallel()
	waits := func(queue, reason string) v1beta1.PodGroup {
		group := newGroup("a", 1).Group
		group.Spec.Queue = queue
		group.Status.Conditions = []metav1.Condition{
			{Type: v1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse, Reason: reason},
		}
		return *group
	}
	var queues []v1beta1.Queue
	for i, name := range []string{"low", "middle", "high", "twin", "last"} {
		queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = []int32{0, 1, 2, 1, 0}[i] })
		queue.Name = name
		queues = append(queues, *queue)
	}
	for name, tc := range map[string]struct {
		groups []v1beta1.PodGroup
		want   string
	}{
		"nothing is reclaimed if no group waits":              {},
		"nothing is reclaimed for a group without conditions": {groups: []v1beta1.PodGroup{*newGroup("a", 1).Group}},
		"nothing is reclaimed for a group that waits for a quota": {
			groups: []v1beta1.PodGroup{waits("high", v1beta1.ReasonQuotaExceeded)},
		},
		"nothing is reclaimed for a scheduled group, whatever the reason of its condition": {
			groups: []v1beta1.PodGroup{func() v1beta1.PodGroup {
				group := waits("high", v1beta1.ReasonUnschedulable)
				group.Status.Conditions[0].Status = metav1.ConditionTrue
				return group
			}()},
		},
		"resources are reclaimed for the first of two queues with the same priority": {
			groups: []v1beta1.PodGroup{waits("twin", v1beta1.ReasonUnschedulable), waits("middle", v1beta1.ReasonUnschedulable)},
			want:   "middle",
		},
		"resources are reclaimed for the higher priority, in whatever order queues are listed": {
			groups: []v1beta1.PodGroup{waits("high", v1beta1.ReasonUnschedulable), waits("last", v1beta1.ReasonUnschedulable)},
			want:   "high",
		},
		"nothing is reclaimed for a group whose queue is gone": {
			groups: []v1beta1.PodGroup{waits("gone", v1beta1.ReasonUnschedulable)},
		},
		"resources are reclaimed for the highest priority among queues with unschedulable groups": {
			groups: []v1beta1.PodGroup{
				waits("low", v1beta1.ReasonUnschedulable), waits("middle", v1beta1.ReasonUnschedulable),
				waits("high", v1beta1.ReasonTooFewPods),
			},
			want: "middle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if queue := neediest(queues, tc.groups); queue != nil {
				got = queue.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestQueuesAreSortedAsVolcanoReclaimsFromThem(t *testing.T) {
	t.Parallel()
	total := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}
	queue := func(name string, priority int32, allocated, quota string) v1beta1.Queue {
		q := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = priority })
		q.Name, q.Status.Allocated = name, cpu(allocated)
		if quota != "" {
			q.Spec.Quota = &v1beta1.QueueQuota{Requests: cpu(quota)}
		}
		return *q
	}
	for name, tc := range map[string]struct{ first, second v1beta1.Queue }{
		"the lower priority is first":                              {queue("b", 1, "1", ""), queue("a", 2, "9", "")},
		"the greater share of the quota is first":                  {queue("b", 1, "3", "4"), queue("a", 1, "5", "10")},
		"without a quota the share of the cluster counts":          {queue("b", 1, "6", ""), queue("a", 1, "5", "10")},
		"the share of a quota can exceed the share of the cluster": {queue("b", 1, "8", "10"), queue("a", 1, "6", "")},
		"a quota larger than the cluster counts as the cluster":    {queue("b", 1, "6", "100"), queue("a", 1, "5", "10")},
		"the first by name is first if all else is equal":          {queue("a", 1, "5", ""), queue("b", 1, "5", "10")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare := firstToGive(total)
			if compare(tc.first, tc.second) >= 0 || compare(tc.second, tc.first) <= 0 {
				t.Errorf("queue %s is not sorted before queue %s", tc.first.Name, tc.second.Name)
			}
		})
	}
}

func TestShareOfQueue(t *testing.T) {
	t.Parallel()
	total := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}
	for name, tc := range map[string]struct {
		allocated corev1.ResourceList
		want      float64
	}{
		"the share is 0 if nothing is allocated": {},
		"the share is 0 if nothing is allocated of a resource that the cluster lacks": {
			allocated: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")},
		},
		"the share is infinite if a resource is allocated that the cluster lacks": {
			allocated: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, want: math.Inf(1),
		},
		"the greatest share of several resources counts": {
			allocated: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("5"), "nvidia.com/gpu": resource.MustParse("0"),
			},
			want: 0.5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(nil)
			queue.Status.Allocated = tc.allocated
			if got := shareOf(queue, total); got != tc.want {
				t.Errorf("the share is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestQueuesOfVolcanoAreReclaimableWhileAnotherQueueNeedsResources(t *testing.T) {
	t.Parallel()
	queue := func(name string, priority int32, allocated string) v1beta1.Queue {
		q := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = priority })
		q.Name, q.UID, q.Status.Allocated = name, "uid", cpu(allocated)
		return *q
	}
	there := func(name string, reclaimable *bool, changes ...func(*volcanov1beta1.Queue)) *volcanov1beta1.Queue {
		changes = append(changes, func(q *volcanov1beta1.Queue) { q.Name, q.Spec.Reclaimable = name, reclaimable })
		return volcanoQueue(changes...)
	}
	waiting := newGroup("a", 1).Group
	waiting.Spec.Queue = "needy"
	waiting.Status.Conditions = []metav1.Condition{
		{Type: v1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonUnschedulable},
	}
	queues := []v1beta1.Queue{
		queue("needy", 2, "1"), queue("first", 2, "1"), queue("small", 1, "1"), queue("great", 1, "3"), queue("low", 0, "1"),
	}
	changeTo := func(name string, before *bool, after bool) change {
		return change{Before: there(name, before), After: there(name, &after)}
	}
	type found = []*volcanov1beta1.Queue
	for name, tc := range map[string]struct {
		groups []v1beta1.PodGroup
		there  found
		want   []change
	}{
		"the queues with a lower priority become reclaimable, in the order in which Volcano reclaims from them": {
			groups: []v1beta1.PodGroup{*waiting},
			there: found{
				there("needy", new(false)), there("first", new(false)), there("small", new(false)), there("great", new(false)),
				there("low", new(false)),
			},
			want: []change{
				changeTo("low", new(false), true), changeTo("great", new(false), true), changeTo("small", new(false), true),
			},
		},
		"nothing changes while the queues with a lower priority are reclaimable": {
			groups: []v1beta1.PodGroup{*waiting},
			there:  found{there("needy", new(false)), there("small", new(true)), there("low", nil)},
		},
		"no queue is reclaimable once no queue needs resources, so the order is that of the list": {
			there: found{
				there("needy", new(true)), there("first", nil), there("small", new(false)), there("low", new(true)),
			},
			want: []change{
				changeTo("needy", new(true), false), changeTo("first", nil, false), changeTo("low", new(true), false),
			},
		},
		"Volcano does not have the queues yet": {groups: []v1beta1.PodGroup{*waiting}},
		"queues that belong to others are left alone": {
			groups: []v1beta1.PodGroup{*waiting}, there: found{there("low", new(false), controlledBy("other"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := reclaimView{Queues: queues, Groups: tc.groups, There: map[string]*volcanov1beta1.Queue{}, Nodes: cpu("10")}
			for _, queue := range tc.there {
				view.There[queue.Name] = queue
			}
			if diff := cmp.Diff(tc.want, view.decide()); diff != "" {
				t.Errorf("unexpected changes (-want +got):\n%s", diff)
			}
		})
	}
}
