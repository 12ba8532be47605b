package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// volcanoQueue returns the Volcano queue that the controller creates for the Queue "lab", after the given changes. The
// Queue has the priority 3 and a quota of 8 CPUs.
func volcanoQueue(changes ...func(*volcanov1beta1.Queue)) *volcanov1beta1.Queue {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("5P"),
	}
	queue := &volcanov1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "tensorstack-jobs",
		}},
		Spec: volcanov1beta1.QueueSpec{
			Weight: 1, Priority: 3, Capability: capacity, Deserved: capacity, Reclaimable: new(false),
		},
	}
	controlledBy("uid")(queue)
	for _, change := range changes {
		change(queue)
	}
	return queue
}

// controlledBy returns a change that makes a queue of Volcano belong to the Queue "lab" with the given UID.
func controlledBy(uid types.UID) func(*volcanov1beta1.Queue) {
	return func(queue *volcanov1beta1.Queue) {
		queue.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "scheduler.tensorstack.dev/v1beta1", Kind: "Queue", Name: "lab", UID: uid,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}}
	}
}

// inStateWith returns a change that sets the state and the allocated resources of a queue of Volcano.
func inStateWith(state volcanov1beta1.QueueState, allocated corev1.ResourceList) func(*volcanov1beta1.Queue) {
	return func(queue *volcanov1beta1.Queue) {
		queue.Status = volcanov1beta1.QueueStatus{State: state, Allocated: allocated}
	}
}

func TestQueueOfVolcano(t *testing.T) {
	t.Parallel()
	type result struct {
		Spec, State change
		Err         error
	}
	open := inStateWith("Open", cpu("2"))
	closed := inStateWith("Closed", cpu("2"))
	reclaimable := func(queue *volcanov1beta1.Queue) { queue.Spec.Reclaimable, queue.Spec.Weight = new(true), 5 }
	changed := func(change func(*volcanov1beta1.QueueSpec)) func(*volcanov1beta1.Queue) {
		return func(queue *volcanov1beta1.Queue) { change(&queue.Spec) }
	}
	// corrected returns the result for a queue of Volcano that somebody has changed. The controller reverts the change.
	corrected := func(change func(*volcanov1beta1.QueueSpec)) result {
		var r result
		r.Spec.Before, r.Spec.After = volcanoQueue(open, changed(change)), volcanoQueue(open)
		return r
	}
	ofPriority := func(spec *volcanov1beta1.QueueSpec) { spec.Priority = 2 }
	ofCapability := func(spec *volcanov1beta1.QueueSpec) { spec.Capability = cpu("4") }
	ofDeserved := func(spec *volcanov1beta1.QueueSpec) { spec.Deserved = cpu("4") }
	for name, tc := range map[string]struct {
		closed bool
		there  *volcanov1beta1.Queue
		want   result
	}{
		"a new queue is created, and then opened": {want: result{
			Spec:  change{After: volcanoQueue()},
			State: change{Before: volcanoQueue(), After: volcanoQueue(inStateWith("Open", corev1.ResourceList{}))},
		}},
		"a new queue of a closed Queue is created, and then closed": {closed: true, want: result{
			Spec:  change{After: volcanoQueue()},
			State: change{Before: volcanoQueue(), After: volcanoQueue(inStateWith("Closed", corev1.ResourceList{}))},
		}},
		"a queue that is as it must be is not changed":        {there: volcanoQueue(open)},
		"a closed queue that is as it must be is not changed": {closed: true, there: volcanoQueue(closed)},
		"other fields of the queue are left to the reclaim controller and to users": {
			there: volcanoQueue(open, reclaimable),
		},
		"the priority is corrected":   {there: volcanoQueue(open, changed(ofPriority)), want: corrected(ofPriority)},
		"the capability is corrected": {there: volcanoQueue(open, changed(ofCapability)), want: corrected(ofCapability)},
		"the deserved resources are corrected": {
			there: volcanoQueue(open, changed(ofDeserved)), want: corrected(ofDeserved),
		},
		"the queue is closed with its Queue, and keeps the rest of its status": {
			closed: true, there: volcanoQueue(open),
			want: result{State: change{Before: volcanoQueue(open), After: volcanoQueue(closed)}},
		},
		"the queue is opened with its Queue": {
			there: volcanoQueue(closed),
			want:  result{State: change{Before: volcanoQueue(closed), After: volcanoQueue(open)}},
		},
		"a queue that belongs to another Queue is left alone": {
			there: volcanoQueue(closed, controlledBy("earlier"), changed(ofPriority)),
			want: result{Err: refusedFor("NameConflict", "the Queue needs queue lab of scheduling.volcano.sh, but one exists "+
				"that belongs to Queue lab (UID earlier): rename the Queue, or delete that Queue")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := queueView{Queue: newQueue(func(s *v1beta1.QueueSpec) {
				s.Priority, s.Closed, s.Quota = 3, tc.closed, &v1beta1.QueueQuota{Requests: cpu("8")}
			})}
			view.Queue.UID = "uid"
			if tc.there != nil {
				view.There = tc.there
			}
			var got result
			got.Spec, got.State, got.Err = volcano{}.queue(view)
			if diff := cmp.Diff(tc.want, got, described); diff != "" {
				t.Errorf("unexpected changes of the queue (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeSchedulerHasNoQueues(t *testing.T) {
	t.Parallel()
	if spec, status, err := (native{}).queue(queueView{Queue: newQueue(nil)}); spec.isNeeded() || status.isNeeded() ||
		err != nil {
		t.Errorf("got the changes %v and %v and the error %v, want none", spec, status, err)
	}
}
