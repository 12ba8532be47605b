package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// pollInterval is how often the cache is checked for CRDs of Volcano that were missing, and for Volcano's own queues
// that must be opened.
const pollInterval = 5 * time.Second

// volcano is vc-scheduler of Volcano 1.14 with the configuration in deploy/scheduler/volcano/conf.
type volcano struct {
	client client.Client
	reader client.Reader
}

// setupWithManager adds to the manager what Volcano's scheduler needs: the loop that opens Volcano's own queues, the
// reclaim controller, and the extender at the given address. Address "0" turns the extender off.
func (e *volcano) setupWithManager(ctx context.Context, mgr ctrl.Manager, observe observer, address string) error {
	err := errors.Join(mgr.Add(manager.RunnableFunc(e.openOwnQueues)), (&reclaim{e}).setupWithManager(mgr))
	if err != nil {
		return err
	}
	if address == "0" {
		return nil
	}
	server, err := newExtender(mgr.GetClient(), observe).server(ctx, address)
	if err != nil {
		return fmt.Errorf("starting the extender for Volcano at --extender-bind-address: %w", err)
	}
	return mgr.Add(server)
}

func (e *volcano) blockers(context.Context, []groupView) (map[string]blocker, error) {
	kind := schema.GroupKind{Group: volcanov1beta1.GroupName, Kind: "PodGroup"}
	_, err := e.client.RESTMapper().RESTMapping(kind, volcanov1beta1.SchemeGroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return map[string]blocker{"": newBlocker("the CustomResourceDefinitions of Volcano are not installed")}, nil
	}
	return nil, err
}

// gates is part of engine. Volcano supports neither the nodes of a queue nor a quota for the number of pods or for the
// devices of a DeviceClass.
func (e *volcano) gates(queue *v1beta1.Queue) bool {
	if queue == nil {
		return false
	}
	_, ofPods := quotaOf(queue)[corev1.ResourcePods]
	return ofPods || isConfined(queue) || limitsDevices(queue)
}

// priorityClass is part of engine. The class is only for the priority of the group, since Volcano supports priorities
// of queues. Volcano decides about preemption, but only for pods whose class allows it.
func (e *volcano) priorityClass(_ *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	value := gang.PriorityOf(group.Spec)
	return priorityClass{
		Name: fmt.Sprintf("%s%d", volcanoClassPrefix, value), Value: value, Preemption: corev1.PreemptLowerPriority,
	}
}

// needsOneClass is part of engine. Volcano uses only the PriorityClass of the group.
func (e *volcano) needsOneClass() bool { return false }

func (e *volcano) queueLimits(*v1beta1.Queue) []metav1.Condition { return nil }

func (e *volcano) groupLimits(groupView) []metav1.Condition { return nil }

// syncQueue creates or updates Volcano's queue of the same name. It also sets the state in the status of that queue.
// Volcano's own controllers would set it, but they need not be installed.
func (e *volcano) syncQueue(ctx context.Context, view queueView) error {
	queue := view.Queue
	there := &volcanov1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queue.Name}}
	err := e.client.Get(ctx, client.ObjectKeyFromObject(there), there)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && !isOurs(there, queue) {
		return report.NameConflict("the Queue", "queue "+there.Name+" of scheduling.volcano.sh", there)
	}
	ofNodes, nodesErr := e.resourcesOfNodes(ctx)
	if nodesErr != nil {
		return nodesErr
	}
	capacity := capacityOf(queue, ofNodes, sumOf(view.Orphans))
	spec := volcanov1beta1.QueueSpec{Capability: capacity, Deserved: capacity, Priority: queue.Spec.Priority}
	if err != nil {
		there.Labels = map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"}
		there.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(queue, v1beta1.GroupVersion.WithKind("Queue")),
		}
		there.Spec = spec
		there.Spec.Weight, there.Spec.Reclaimable = 1, new(false)
		if err := owned.Create(ctx, e.client, e.reader, queue, "the Queue", there); err != nil {
			return err
		}
	}
	if !equality.Semantic.DeepEqual(ourPart(there.Spec), spec) {
		changed := there.DeepCopy()
		changed.Spec.Capability, changed.Spec.Deserved, changed.Spec.Priority = spec.Capability, spec.Deserved, spec.Priority
		if err := e.client.Patch(ctx, changed, client.MergeFrom(there)); err != nil {
			return fmt.Errorf("updating queue %s of Volcano: %w", there.Name, err)
		}
		there = changed
	}
	state := volcanov1beta1.QueueStateOpen
	if queue.Spec.Closed {
		state = volcanov1beta1.QueueStateClosed
	}
	return e.setState(ctx, there, state)
}

// isOurs reports whether a queue of Volcano belongs to the given Queue. A Queue with the name of one of Volcano's own
// queues takes that queue over.
func isOurs(there *volcanov1beta1.Queue, queue *v1beta1.Queue) bool {
	return metav1.IsControlledBy(there, queue) ||
		slices.Contains(volcanosOwn, there.Name) && metav1.GetControllerOf(there) == nil
}

// volcanosOwn are the queues that Volcano's scheduler creates when it starts.
var volcanosOwn = []string{"root", volcanov1beta1.DefaultQueue}

// resourcesOfNodes returns the sum of the allocatable resources of all nodes.
func (e *volcano) resourcesOfNodes(ctx context.Context) (corev1.ResourceList, error) {
	var nodes corev1.NodeList
	err := e.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing nodes for their allocatable resources: %w", err)
	}
	var total corev1.ResourceList
	for i := range nodes.Items {
		total = add(total, nodes.Items[i].Status.Allocatable)
	}
	return total, nil
}

// ourPart returns the fields of a Volcano queue that syncQueue sets. The reclaim controller sets reclaimable.
func ourPart(spec volcanov1beta1.QueueSpec) volcanov1beta1.QueueSpec {
	return volcanov1beta1.QueueSpec{Capability: spec.Capability, Deserved: spec.Deserved, Priority: spec.Priority}
}

// capacityOf returns the most that a queue can have, which is also the base of its share: the part of its quota that
// the orphans do not use, and no limit for other resources. Volcano reduces values beyond the cluster to what the
// cluster has. The orphans are pods that Volcano does not count, because their group is gone.
//
// Volcano orders queues only by the resources that are named here: CPU, memory, and the resources of nodes. Resources
// that pods request must not be added, since a tenant can request any number of resources with any names.
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
	// unlimited is more than a cluster has of any resource, and small enough not to overflow in thousandths.
	unlimited = resource.MustParse("5P")
	// nearlyNothing stands for a quota of 0, which Volcano would treat as no limit.
	nearlyNothing = resource.MustParse("1m")
)

// openOwnQueues opens Volcano's own queues. A new queue has no state, and Volcano schedules nothing from it until its
// state is set.
func (e *volcano) openOwnQueues(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, name := range volcanosOwn {
			if err := e.openIfStateless(ctx, name); err != nil {
				logf.FromContext(ctx).Error(err, "Cannot open a queue of Volcano", "queue", name)
			}
		}
		return false, nil
	})
}

// openIfStateless opens a queue of Volcano that has no state, unless there is a Queue of the same name.
func (e *volcano) openIfStateless(ctx context.Context, name string) error {
	err := e.client.Get(ctx, client.ObjectKey{Name: name}, &v1beta1.Queue{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err // syncQueue sets the state
	}
	var there volcanov1beta1.Queue
	err = e.client.Get(ctx, client.ObjectKey{Name: name}, &there)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || err == nil && there.Status.State != "" {
		return nil
	}
	if err != nil {
		return err
	}
	return e.setState(ctx, &there, volcanov1beta1.QueueStateOpen)
}

// setState sets the state of a queue of Volcano: open or closed.
func (e *volcano) setState(ctx context.Context, queue *volcanov1beta1.Queue, state volcanov1beta1.QueueState) error {
	if queue.Status.State == state {
		return nil
	}
	changed := queue.DeepCopy()
	changed.Status.State = state
	if changed.Status.Allocated == nil {
		changed.Status.Allocated = corev1.ResourceList{} // required
	}
	if err := e.client.Status().Patch(ctx, changed, client.MergeFrom(queue)); err != nil {
		return fmt.Errorf("setting the state of queue %s of Volcano to %s: %w", queue.Name, state, err)
	}
	return nil
}

func (e *volcano) syncGroup(
	ctx context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string,
) (string, error) {
	n := needOf(group.Spec)
	want := &volcanov1beta1.PodGroup{
		ObjectMeta: engineMeta(group),
		Spec: volcanov1beta1.PodGroupSpec{
			MinMember: int32(n.Min), //nolint:gosec // at most 64 roles of 2000
			Queue:     group.Spec.Queue,
		},
	}
	for role, min := range n.Roles {
		if want.Spec.MinTaskMember == nil {
			want.Spec.MinTaskMember = map[string]int32{}
		}
		want.Spec.MinTaskMember[role] = int32(min) //nolint:gosec // at most 2000
	}
	if needed, _ := n.pick(activeByAge(pods)); needed != nil {
		var sum corev1.ResourceList
		for _, pod := range needed {
			sum = add(sum, requestsOf(pod))
		}
		want.Spec.MinResources = &sum
	}
	var there volcanov1beta1.PodGroup
	err := e.client.Get(ctx, client.ObjectKeyFromObject(want), &there)
	switch {
	case apierrors.IsNotFound(err):
		if want.Spec.PriorityClassName, err = classOf(pods, class); err != nil {
			return "", err
		}
		return want.Spec.PriorityClassName, owned.Create(ctx, e.client, e.reader, group, "the PodGroup", want)
	case err != nil:
		return "", err
	case !metav1.IsControlledBy(&there, group):
		return "", report.NameConflict("the PodGroup", "podgroup "+there.Name+" of scheduling.volcano.sh", &there)
	}
	if err := checkClass(group, there.Spec.PriorityClassName, class); err != nil {
		return "", err
	}
	if want.Spec.MinResources == nil {
		want.Spec.MinResources = there.Spec.MinResources // too few pods: keep the value
	}
	changed := there.DeepCopy()
	changed.Spec.MinMember, changed.Spec.MinTaskMember = want.Spec.MinMember, want.Spec.MinTaskMember
	changed.Spec.MinResources, changed.Spec.Queue = want.Spec.MinResources, want.Spec.Queue
	if equality.Semantic.DeepEqual(changed.Spec, there.Spec) {
		return there.Spec.PriorityClassName, nil
	}
	if err := control.Patch(ctx, e.client, &there, changed); err != nil {
		return "", fmt.Errorf("updating podgroup %s of Volcano: %w", want.Name, err)
	}
	return there.Spec.PriorityClassName, nil
}
