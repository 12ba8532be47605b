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

// engine is the scheduler that places the pods: what it can do for groups and queues is up to it.
type engine interface {
	// hindrance returns why the engine cannot schedule groups, of those that are there, by namespace; "" is all of them.
	// What the objects of a tenant show of the engine is no evidence for the groups of another tenant.
	hindrance(ctx context.Context, there []groupView) (map[string]hindrance, error)
	// gates says whether the pods of a queue must be gated, for the queue to decide when or where they are scheduled. Nil
	// is no queue.
	gates(queue *v1beta1.Queue) bool
	// priorityClass is the class of the group's pods, by which the engine knows their priority.
	priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass
	// needsOneClass reports whether the engine schedules only pods that have the PriorityClass of their group.
	needsOneClass() bool
	// queueLimits are conditions that say what the engine cannot do of a queue's spec.
	queueLimits(queue *v1beta1.Queue) []metav1.Condition
	// groupLimits are conditions that say what the engine cannot do of a group's spec.
	groupLimits(g groupView) []metav1.Condition
	// syncGroup makes the engine's own group what ours is. Pods are those of the group, class is the PriorityClass of new
	// ones. It returns the one that the group has, which stays: that of the pods that were there before it.
	syncGroup(ctx context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string) (string, error)
	// syncQueue makes the engine's own queue what ours is. There is a queue in the view.
	syncQueue(ctx context.Context, view queueView) error
}

// hindrance is why an engine cannot schedule groups; empty if it can.
type hindrance struct {
	Message string
	// LookIn is when to find out again; 0 is not without a reason.
	LookIn time.Duration
}

// hindered is a hindrance that an administrator may remove at any time.
func hindered(message string) hindrance { return hindrance{message, 30 * time.Second} }

// newEngine returns the engine of a name. It returns an error if there is none.
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

// isConfined says that a queue is for some nodes only.
func isConfined(queue *v1beta1.Queue) bool { return len(requirementsOf(queue.Spec.NodeSelector)) > 0 }

// notSupported is a condition about what a spec asks for and the engine does not do.
func notSupported(condition, message string) metav1.Condition {
	return metav1.Condition{
		Type: condition, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNotSupportedByEngine, Message: message,
	}
}
