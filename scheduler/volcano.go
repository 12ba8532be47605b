package scheduler

import (
	"context"
	"errors"
	"fmt"
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
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// lookInterval is the time between two looks, into the cache, for what Volcano lacks: its CRDs, or somebody who opens
// its own queues.
const lookInterval = 5 * time.Second

// volcano is vc-scheduler of Volcano 1.14, configured as deploy/scheduler/volcano/conf has it.
type volcano struct {
	client client.Client
	reader client.Reader
}

// setupWithManager starts what the scheduler of Volcano needs besides its objects: somebody who opens its own queues,
// and who says what may be taken back from whom: the extender, at an address that is 0 for none.
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
		return fmt.Errorf("listening for the scheduler of Volcano (--extender-bind-address): %w", err)
	}
	return mgr.Add(server)
}

func (e *volcano) hindrance(context.Context, []groupView) (map[string]hindrance, error) {
	kind := schema.GroupKind{Group: volcanov1beta1.GroupName, Kind: "PodGroup"}
	_, err := e.client.RESTMapper().RESTMapping(kind, volcanov1beta1.SchemeGroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return map[string]hindrance{"": hindered("the CustomResourceDefinitions of Volcano are not installed")}, nil
	}
	return nil, err
}

// gates: Volcano knows nothing of a queue's nodes, and keeps no quota of pods.
func (e *volcano) gates(queue *v1beta1.Queue) bool {
	if queue == nil {
		return false
	}
	_, ofPods := quotaOf(queue)[corev1.ResourcePods]
	return ofPods || isConfined(queue)
}

// priorityClass is of the group alone: Volcano knows the priority of the queue. What may be taken back is up to it, but
// only for pods whose class lets them.
func (e *volcano) priorityClass(_ *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass {
	value := gang.PriorityOf(group.Spec)
	return priorityClass{
		Name: fmt.Sprintf("%s%d", volcanoClassPrefix, value), Value: value, Preemption: corev1.PreemptLowerPriority,
	}
}

// needsOneClass: Volcano goes by the PriorityClass of the group alone.
func (e *volcano) needsOneClass() bool { return false }

func (e *volcano) queueLimits(*v1beta1.Queue) []metav1.Condition { return nil }

func (e *volcano) groupLimits(groupView) []metav1.Condition { return nil }

// syncQueue gives Volcano a queue of the same name. That has a state in its status, which Volcano's own controllers
// would set.
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
	//attack:a queue names what pods request => ofNodes, nodesErr := sumOf(view.pods()), error(nil)
	ofNodes, nodesErr := e.resourcesOfNodes(ctx)
	if nodesErr != nil {
		return nodesErr
	}
	capacity := capacityOf(queue, ofNodes)
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
			return fmt.Errorf("changing queue %s of Volcano: %w", there.Name, err)
		}
		there = changed
	}
	state := volcanov1beta1.QueueStateOpen
	if queue.Spec.Closed {
		state = volcanov1beta1.QueueStateClosed
	}
	return e.setState(ctx, there, state)
}

// isOurs reports whether a queue of Volcano belongs to one of ours. Volcano's scheduler makes some queues for itself,
// and a Queue of that name takes it over.
func isOurs(there *volcanov1beta1.Queue, queue *v1beta1.Queue) bool {
	return metav1.IsControlledBy(there, queue) ||
		slices.Contains(volcanosOwn, there.Name) && metav1.GetControllerOf(there) == nil
}

// volcanosOwn are the queues that the scheduler of Volcano makes for itself when it starts.
var volcanosOwn = []string{"root", volcanov1beta1.DefaultQueue}

// resourcesOfNodes returns what all nodes have together.
func (e *volcano) resourcesOfNodes(ctx context.Context) (corev1.ResourceList, error) {
	var nodes corev1.NodeList
	err := e.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing nodes for what they have: %w", err)
	}
	var total corev1.ResourceList
	for i := range nodes.Items {
		total = add(total, nodes.Items[i].Status.Allocatable)
	}
	return total, nil
}

// ourPart is what of a queue of Volcano follows ours, besides whether it may be taken from.
func ourPart(spec volcanov1beta1.QueueSpec) volcanov1beta1.QueueSpec {
	return volcanov1beta1.QueueSpec{Capability: spec.Capability, Deserved: spec.Deserved, Priority: spec.Priority}
}

// capacityOf returns what a queue may have at most, and what its share is measured by: its quota, and of everything
// else whatever the cluster has. Volcano cuts down to the cluster what exceeds it, so that nobody has to know how much
// that is. It orders queues by the resources that are named here, and by no others: CPU, memory, and what nodes have.
// What pods request is no source of names: a tenant may request resources of any name, and as many as it likes.
func capacityOf(queue *v1beta1.Queue, ofNodes corev1.ResourceList) corev1.ResourceList {
	capacity := corev1.ResourceList{corev1.ResourceCPU: unlimited, corev1.ResourceMemory: unlimited}
	for name, quantity := range ofNodes {
		if !quantity.IsZero() {
			capacity[name] = unlimited
		}
	}
	for name, quantity := range quotaOf(queue) {
		capacity[name] = quantity
		if quantity.IsZero() {
			capacity[name] = nearlyNothing
		}
	}
	delete(capacity, corev1.ResourcePods)
	return capacity
}

var (
	// unlimited is more than a cluster has of anything, and less than what overflows in thousandths.
	unlimited = resource.MustParse("5P")
	// nearlyNothing stands for none of a resource, which Volcano takes for no limit.
	nearlyNothing = resource.MustParse("1m")
)

// openOwnQueues opens Volcano's own queues. Like all, they have no state at first, and nothing is scheduled from them
// until somebody gives them one.
func (e *volcano) openOwnQueues(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		for _, name := range volcanosOwn {
			if err := e.openIfStateless(ctx, name); err != nil {
				logf.FromContext(ctx).Error(err, "opening a queue of Volcano", "queue", name)
			}
		}
		return false, nil
	})
}

// openIfStateless opens a queue of Volcano that nobody looks after.
func (e *volcano) openIfStateless(ctx context.Context, name string) error {
	err := e.client.Get(ctx, client.ObjectKey{Name: name}, &v1beta1.Queue{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err // ours has the say
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

// setState opens or closes a queue of Volcano.
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
		return fmt.Errorf("giving queue %s of Volcano the state %s: %w", queue.Name, state, err)
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
	if want.Spec.MinResources == nil {
		want.Spec.MinResources = there.Spec.MinResources // those that were there before
	}
	changed := there.DeepCopy()
	changed.Spec.MinMember, changed.Spec.MinTaskMember = want.Spec.MinMember, want.Spec.MinTaskMember
	changed.Spec.MinResources = want.Spec.MinResources
	if equality.Semantic.DeepEqual(changed.Spec, there.Spec) {
		return there.Spec.PriorityClassName, nil
	}
	if err := e.client.Patch(ctx, changed,
		client.MergeFromWithOptions(&there, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("changing podgroup %s of Volcano: %w", want.Name, err)
	}
	return there.Spec.PriorityClassName, nil
}
