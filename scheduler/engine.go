package scheduler

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// engine is the scheduler that places the pods. Engines differ in the features of groups and queues that they
// support. The methods are pure functions: other code reads and writes the objects of the engine.
type engine interface {
	// newGroup returns an empty group of the engine. newQueue returns an empty queue, or nil if the engine has no
	// queues.
	newGroup() object
	newQueue() object
	// notServed returns the message for the case that the API server does not serve the kind of the engine's groups.
	notServed() string
	// blockers returns the reasons why the engine cannot schedule the given groups, by namespace. Objects of one tenant
	// must not affect the groups of another tenant. So an object that indicates a problem blocks only the groups of its
	// own namespace.
	blockers(groups []groupView, now time.Time) map[string]blocker
	// gates reports whether the pods of a queue need the scheduling gate, so that the controller decides when or where
	// they are scheduled. A nil queue means that the queue does not exist.
	gates(queue *v1beta1.Queue) bool
	// priorityClass returns the PriorityClass for the pods of a group. The value of the class is the priority of these
	// pods in the engine.
	priorityClass(queue *v1beta1.Queue, group *v1beta1.PodGroup) priorityClass
	// needsOneClass reports whether the engine schedules only pods with the PriorityClass of their group.
	needsOneClass() bool
	// queueLimits returns conditions about the parts of a queue's spec that the engine does not support.
	queueLimits(queue *v1beta1.Queue) []metav1.Condition
	// groupLimits returns conditions about the parts of a group's spec that the engine does not support.
	groupLimits(g groupView) []metav1.Condition
	// queue returns the change of the engine's queue, and the change of the status of that queue. The view must have a
	// queue. err is a *report.RefusedError if the engine's queue belongs to somebody else.
	queue(view queueView) (spec, status change, err error)
	// group returns the change of the engine's group for a PodGroup. If the engine's group must be created, it gets the
	// PriorityClass of the PodGroup's pods, or the given class if the PodGroup has no active pods. classInForce is the
	// PriorityClass of the engine's group. err is a *report.RefusedError if the engine cannot have the group, for
	// example because an object of somebody else has its name.
	group(g groupView, class string) (c change, classInForce string, err error)
}

// blocker is why an engine cannot schedule groups. An empty Message means that the engine can schedule them.
type blocker struct {
	Message string
	// RequeueAt is when to check again. Zero means never.
	RequeueAt time.Time
}

// newBlocker returns a blocker that is checked again soon, because an administrator can remove it at any time.
func newBlocker(message string, now time.Time) blocker {
	return blocker{message, now.Add(30 * time.Second)}
}

// newEngine returns the engine of the given name. It returns an error if no engine has the name.
func newEngine(name string) (engine, error) {
	switch name {
	case "native":
		return native{}, nil
	case "volcano":
		return volcano{}, nil
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
