package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// engine is the scheduler that places the pods. Engines differ in the features of groups and queues that they support.
type engine interface {
	// blockers returns why the engine cannot schedule the given groups, by namespace. The key "" is for all namespaces.
	// Objects of one tenant must not affect the groups of another tenant, so a problem that they show blocks only their
	// namespace.
	blockers(ctx context.Context, groups []groupView) (map[string]blocker, error)
	// gates reports whether the pods of a queue need the scheduling gate, so that the controller decides when or where
	// they are scheduled. Nil means that the queue does not exist.
	gates(queue *v1beta1.Queue) bool
	// priorityClass returns the PriorityClass for the pods of a group. It stands for their priority in the engine.
	priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass
	// needsOneClass reports whether the engine schedules only pods with the PriorityClass of their group.
	needsOneClass() bool
	// queueLimits returns conditions about the parts of a queue's spec that the engine does not support.
	queueLimits(queue *v1beta1.Queue) []metav1.Condition
	// groupLimits returns conditions about the parts of a group's spec that the engine does not support.
	groupLimits(g groupView) []metav1.Condition
	// syncGroup creates or updates the engine's group for a PodGroup with these pods. A new group gets the given
	// PriorityClass, or that of its pods if it has pods already. syncGroup returns the PriorityClass of the engine's
	// group, which never changes.
	syncGroup(ctx context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string) (string, error)
	// syncQueue creates or updates the engine's queue. The view must have a queue.
	syncQueue(ctx context.Context, view queueView) error
}

// blocker is why an engine cannot schedule groups. Empty if it can.
type blocker struct {
	Message string
	// RequeueAfter is after how long to check again. 0 means never.
	RequeueAfter time.Duration
}

// newBlocker returns a blocker that is checked again soon, because an administrator can remove it at any time.
func newBlocker(message string) blocker { return blocker{message, 30 * time.Second} }

// newEngine returns the engine of the given name. It returns an error if the name is not that of an engine.
func newEngine(name string, c client.Client, reader client.Reader, clock clock.PassiveClock) (engine, error) {
	switch name {
	case "native":
		return &native{client: c, reader: reader, clock: clock}, nil
	case "volcano":
		return &volcano{client: c, reader: reader}, nil
	default:
		return nil, fmt.Errorf("--engine must be native or volcano, got %q", name)
	}
}

// isConfined reports whether a queue restricts its pods to some nodes.
func isConfined(queue *v1beta1.Queue) bool { return len(requirementsOf(queue.Spec.NodeSelector)) > 0 }

// notSupported returns a condition about a part of a spec that the engine does not support.
func notSupported(condition, message string) metav1.Condition {
	return metav1.Condition{
		Type: condition, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNotSupportedByEngine, Message: message,
	}
}
