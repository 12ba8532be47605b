package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/report"
)

// volcano is vc-scheduler of Volcano 1.14 with the configuration in deploy/scheduler/volcano/conf.
type volcano struct{}

func (volcano) newGroup() object { return &volcanov1beta1.PodGroup{} }

func (volcano) newQueue() object { return &volcanov1beta1.Queue{} }

func (volcano) notServed() string {
	return "the CustomResourceDefinitions of Volcano are not installed"
}

func (volcano) blockers([]groupView, time.Time) map[string]blocker { return nil }

// gates implements engine. Pods need the gate if their queue selects nodes or has a quota for the number of pods or
// for the devices of a DeviceClass. Volcano supports none of these.
func (volcano) gates(queue *v1beta1.Queue) bool {
	if queue == nil {
		return false
	}
	_, ofPods := quotaOf(queue)[corev1.ResourcePods]
	return ofPods || isConfined(queue) || limitsDevices(queue)
}

// priorityClass implements engine. The class represents only the priority of the group, since Volcano itself supports
// priorities of queues. The class allows preemption, because Volcano considers preemption only for pods whose class
// allows it.
func (volcano) priorityClass(_ *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	value := gang.PriorityOf(group.Spec)
	return priorityClass{
		Name: fmt.Sprintf("%s%d", volcanoClassPrefix, value), Value: value, Preemption: corev1.PreemptLowerPriority,
	}
}

// needsOneClass implements engine. Volcano uses only the PriorityClass of the group.
func (volcano) needsOneClass() bool { return false }

func (volcano) queueLimits(*v1beta1.Queue) []metav1.Condition { return nil }

func (volcano) groupLimits(groupView) []metav1.Condition { return nil }

// queue implements engine. The first change creates or updates Volcano's queue of the same name, except for the field
// reclaimable of an existing queue, which the reclaim controller sets. The second one sets the state of that queue.
// Volcano's own controllers would set the state, but they need not be installed.
func (volcano) queue(view queueView) (spec, status change, err error) {
	there, exists := view.There.(*volcanov1beta1.Queue)
	if exists && !isOurs(there, view.Queue) {
		return change{}, change{}, report.NameConflict("the Queue", "queue "+there.Name+" of scheduling.volcano.sh", there)
	}
	capacity := capacityOf(view.Queue, view.Nodes, sumOf(view.Orphans))
	if !exists {
		there = newVolcanoQueue(view.Queue)
	}
	changed := there.DeepCopy()
	changed.Spec.Capability, changed.Spec.Deserved, changed.Spec.Priority = capacity, capacity, view.Queue.Spec.Priority
	switch {
	case !exists:
		spec.After, there = changed, changed.DeepCopy()
	case !equality.Semantic.DeepEqual(there.Spec, changed.Spec):
		spec = change{Before: there, After: changed}
	}
	state := volcanov1beta1.QueueStateOpen
	if view.Queue.Spec.Closed {
		state = volcanov1beta1.QueueStateClosed
	}
	return spec, inState(there, state), nil
}

// newVolcanoQueue returns Volcano's queue for a Queue, without its capacity and priority.
func newVolcanoQueue(queue *v1beta1.Queue) *volcanov1beta1.Queue {
	return &volcanov1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{
			Name: queue.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(queue, v1beta1.GroupVersion.WithKind("Queue"))},
		},
		Spec: volcanov1beta1.QueueSpec{Weight: 1, Reclaimable: new(false)},
	}
}

// inState returns the change that sets the state of a queue of Volcano to open or closed. The change is empty if the
// queue already has the state.
func inState(queue *volcanov1beta1.Queue, state volcanov1beta1.QueueState) change {
	if queue.Status.State == state {
		return change{}
	}
	changed := queue.DeepCopy()
	changed.Status.State = state
	if changed.Status.Allocated == nil {
		changed.Status.Allocated = corev1.ResourceList{} // the CRD requires the field
	}
	return change{Before: queue, After: changed}
}

// isOurs reports whether a queue of Volcano belongs to the Queue of the same name: the Queue controls the queue, or
// the queue is one of Volcano's own queues and has no controller.
func isOurs(there *volcanov1beta1.Queue, queue *v1beta1.Queue) bool {
	return metav1.IsControlledBy(there, queue) ||
		slices.Contains(volcanosOwn, there.Name) && metav1.GetControllerOf(there) == nil
}

// volcanosOwn are the queues that Volcano's scheduler creates when it starts.
var volcanosOwn = []string{"root", volcanov1beta1.DefaultQueue}

// capacityOf returns the maximum of each resource that the pods of a queue can use in Volcano. For a resource in the
// quota, the maximum is the part of the quota that the orphans do not use: Volcano does not count orphans, because
// their group is gone. Other resources have no limit. Volcano also computes the share of the queue from these values.
// If a value exceeds the resources of the cluster, Volcano uses the resources of the cluster instead.
//
// Volcano orders queues only by the resources in the result: CPU, memory, and the resources of nodes and of the
// quota. Other resources that pods request must not be added, since a tenant can request any number of resources with
// any names.
func capacityOf(queue *v1beta1.Queue, ofNodes, orphans corev1.ResourceList) corev1.ResourceList {
	capacity := corev1.ResourceList{corev1.ResourceCPU: unlimited, corev1.ResourceMemory: unlimited}
	for name, quantity := range ofNodes {
		if !quantity.IsZero() {
			capacity[name] = unlimited
		}
	}
	for name, quantity := range quotaOf(queue) {
		left := quantity.DeepCopy()
		left.Sub(orphans[name])
		capacity[name] = largest(left, nearlyNothing)
	}
	delete(capacity, corev1.ResourcePods)
	maps.DeleteFunc(capacity, func(name corev1.ResourceName, _ resource.Quantity) bool { return isOfClass(name) })
	return capacity
}

var (
	// unlimited is more than a cluster has of any resource. In thousandths, it still fits into an int64.
	unlimited = resource.MustParse("5P")
	// nearlyNothing stands for a quota of 0, which Volcano would treat as no limit.
	nearlyNothing = resource.MustParse("1m")
)

// group implements engine.
func (volcano) group(g groupView, class string) (c change, classInForce string, err error) {
	n := needOf(g.Group.Spec)
	want := volcanov1beta1.PodGroupSpec{
		MinMember: int32(n.Min), //nolint:gosec // at most 64 roles of 2000
		Queue:     g.Group.Spec.Queue,
	}
	for role, min := range n.Roles {
		if want.MinTaskMember == nil {
			want.MinTaskMember = map[string]int32{}
		}
		want.MinTaskMember[role] = int32(min) //nolint:gosec // at most 2000
	}
	if needed, _ := n.pick(activeByAge(g.Pods)); needed != nil {
		want.MinResources = new(sumOf(needed))
	}
	there, exists := g.There.(*volcanov1beta1.PodGroup)
	if !exists {
		if want.PriorityClassName, err = classOf(g.Pods, class); err != nil {
			return change{}, "", err
		}
		group := &volcanov1beta1.PodGroup{ObjectMeta: engineMeta(g.Group), Spec: want}
		return change{After: group}, want.PriorityClassName, nil
	}
	if !metav1.IsControlledBy(there, g.Group) {
		return change{}, "", report.NameConflict("the PodGroup", "podgroup "+there.Name+" of scheduling.volcano.sh", there)
	}
	classInForce = there.Spec.PriorityClassName
	if err := checkClass(g.Group, classInForce, class); err != nil {
		return change{}, "", err
	}
	if want.MinResources == nil {
		want.MinResources = there.Spec.MinResources // without enough pods, the sum is not known: keep the old one
	}
	changed := there.DeepCopy()
	changed.Spec.MinMember, changed.Spec.MinTaskMember = want.MinMember, want.MinTaskMember
	changed.Spec.MinResources, changed.Spec.Queue = want.MinResources, want.Queue
	if equality.Semantic.DeepEqual(changed.Spec, there.Spec) {
		return change{}, classInForce, nil
	}
	return change{Before: there, After: changed}, classInForce, nil
}
