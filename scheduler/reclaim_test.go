package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestForWhomResourcesAreTakenBack(t *testing.T) {
	t.Parallel()
	waits := func(queue, reason string) v1beta1.PodGroup {
		group := newGroup("a", 1).Group
		group.Spec.Queue = queue
		group.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse, Reason: reason}}
		return *group
	}
	var queues []v1beta1.Queue
	for priority, name := range []string{"low", "middle", "high"} {
		queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = int32(priority) })
		queue.Name = name
		queues = append(queues, *queue)
	}
	for name, tc := range map[string]struct {
		groups []v1beta1.PodGroup
		want   string
	}{
		"nobody, if nobody waits":          {},
		"nobody that is not looked at yet": {groups: []v1beta1.PodGroup{*newGroup("a", 1).Group}},
		"nobody that waits for its quota":  {groups: []v1beta1.PodGroup{waits("high", v1beta1.ReasonQuotaExceeded)}},
		"nobody in a queue that is gone":   {groups: []v1beta1.PodGroup{waits("gone", v1beta1.ReasonUnschedulable)}},
		"the queue of the greatest priority that waits for room": {
			groups: []v1beta1.PodGroup{
				waits("low", v1beta1.ReasonUnschedulable), waits("middle", v1beta1.ReasonUnschedulable), waits("high", v1beta1.ReasonTooFewPods),
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
