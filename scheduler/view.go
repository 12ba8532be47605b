package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// queueView is a snapshot of a queue and its PodGroups.
type queueView struct {
	// Queue is nil if the Queue does not exist or is being deleted.
	Queue  *v1beta1.Queue
	Groups []groupView
	// Orphans are pods of the queue whose group is gone or belongs to another queue now. They hold resources of a node
	// or can be bound at any time, so they count against the quota until they end.
	Orphans []*corev1.Pod
	// Blocker is why the engine can schedule no group of the queue. Its message is empty if there is no such problem.
	Blocker blocker
	// There points to the engine's queue of the same name. Nil if the engine has no such queue, or no queues at all.
	There object
	// Nodes is the sum of the allocatable resources of all nodes. Nil if the engine has no queues, or if Queue is nil.
	Nodes corev1.ResourceList
	// Classes maps names to the PriorityClasses for the groups in namespaces that the queue selects. The value is nil if
	// the class does not exist.
	Classes map[string]*schedulingv1.PriorityClass
	// Failed is the error that prevents the controller from knowing the engine's state of some groups. The queue is
	// retried.
	Failed error
	// RequeueAt is when to reconcile the queue again, for example to check a blocker again. Zero means never.
	RequeueAt time.Time
}

// object is an object of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// groupView is a snapshot of a PodGroup and its pods.
type groupView struct {
	Group *v1beta1.PodGroup
	// Pods of the group, including those that are being deleted.
	Pods []*corev1.Pod
	// Selected reports whether the queue selects the namespace of the group.
	Selected bool
	// There points to the engine's group of the same name. Nil if the engine has no such group.
	There object
	// Blocker is why the engine cannot schedule the group. Empty if it can.
	Blocker string

	// settle sets the fields below.

	// ClassInForce is the PriorityClass that the engine's group has. New pods of the group must have it.
	ClassInForce string
	// WaitsForEarlier reports whether the engine still has an earlier group with the same name, because some of its
	// pods have not ended. Then Blocker describes the earlier group.
	WaitsForEarlier bool
	// Unknown reports whether a write in the engine failed, so that the controller does not know which group the engine
	// has.
	Unknown bool

	// decide sets the fields below.

	// Limits are conditions about the parts of the group's spec that the engine does not support.
	Limits []metav1.Condition
	// NeedsOneClass reports whether the engine schedules only pods with the class in force.
	NeedsOneClass bool
	// Admission is the condition Admitted.
	Admission metav1.Condition
}

// isAdmitted reports whether the queue admits the group and the controller knows that the engine has the group.
func (g groupView) isAdmitted() bool {
	return g.Admission.Status == metav1.ConditionTrue && !g.Unknown
}

func (g groupView) key() string { return g.Group.Namespace + "/" + g.Group.Name }

// selected returns the groups in namespaces that the queue selects. Groups in other namespaces can name the queue too.
func (view queueView) selected() []groupView {
	return slices.DeleteFunc(slices.Clone(view.Groups), func(g groupView) bool { return !g.Selected })
}

// pods returns all pods of the queue: orphans and the pods of selected groups.
func (view queueView) pods() []*corev1.Pod {
	pods := slices.Clone(view.Orphans)
	for _, g := range view.selected() {
		pods = append(pods, g.Pods...)
	}
	return pods
}

// block sets the blocker of each group to the blocker of its namespace, and requeues the queue to check the blockers
// again. The keys of blockers are namespaces.
func (view *queueView) block(blockers map[string]blocker) {
	for i := range view.Groups {
		b := blockers[view.Groups[i].Group.Namespace]
		view.Groups[i].Blocker = b.Message
		view.RequeueAt = policy.Earlier(view.RequeueAt, b.RequeueAt)
	}
}
