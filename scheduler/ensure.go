package scheduler

import (
	"errors"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// engineChanges are the changes that must be written in the engine before the groups of a queue are admitted. After
// the writes, QueueErr and the Err of each group also have the errors of the writes.
type engineChanges struct {
	// Queue is the change of the engine's queue, and QueueState is the change of the status of that queue.
	Queue, QueueState change
	// QueueErr is why the engine's queue is not as it must be: a *report.RefusedError, or the error of a write.
	QueueErr error
	// Groups are the changes for each group of the view, in the same order.
	Groups []groupChange
}

// change is the change of an object of the engine.
type change struct {
	// Before is the object without the change. Nil if the object does not exist.
	Before object
	// After is the object as it must be. Nil if nothing must be written.
	After object
}

func (c change) isNeeded() bool { return c.After != nil }

// groupChange is the change of the engine's group for a PodGroup.
type groupChange struct {
	change

	// NewClass is the PriorityClass to create before the group. Nil if the class exists.
	NewClass *schedulingv1.PriorityClass
	// IsClassNew reports whether an API server might not have seen the class of the group yet. Such an API server
	// rejects pods and groups that name the class (admission plugin Priority).
	IsClassNew bool
	// ClassInForce is the PriorityClass that the engine's group has. It never changes.
	ClassInForce string
	// Err is why the engine's group is not as it must be: a *report.RefusedError, or the error of a write.
	Err error
}

// ensure returns the changes that must be written in the engine for a queue, and for its groups that can be admitted.
func ensure(e engine, view queueView, now time.Time) *engineChanges {
	all := &engineChanges{Groups: make([]groupChange, len(view.Groups))}
	if view.Queue == nil || view.Blocker.Message != "" {
		return all
	}
	if all.Queue, all.QueueState, all.QueueErr = e.queue(view); all.QueueErr != nil {
		return all
	}
	for i, g := range view.Groups {
		if view.admission(g).Status != metav1.ConditionTrue {
			continue
		}
		c, class := &all.Groups[i], e.priorityClass(view.Queue, g.Group)
		c.NewClass, c.IsClassNew, c.Err = class.check(view.Classes[class.Name], now)
		if c.Err == nil {
			c.change, c.ClassInForce, c.Err = e.group(g, class.Name)
		}
	}
	return all
}

// settle adds the results of the writes in the engine to a view. A group is admitted only if the engine has its
// group. A *report.RefusedError becomes a blocker. After any other error, the controller does not know which group
// the engine has, and settle returns the error.
func (view *queueView) settle(ensured *engineChanges, now time.Time) error {
	if _, isRefused := errors.AsType[*report.RefusedError](ensured.QueueErr); isRefused {
		view.Blocker = newBlocker(ensured.QueueErr.Error(), now)
		return nil
	}
	var errs []error
	for i := range view.Groups {
		g, c := &view.Groups[i], ensured.Groups[i]
		refused, isRefused := errors.AsType[*report.RefusedError](c.Err)
		switch {
		case ensured.QueueErr != nil:
			g.Unknown = true
		case isRefused:
			g.Blocker, g.WaitsForEarlier = c.Err.Error(), refused.Reason == v1beta1.ReasonEarlierGroup
			delay := refusedDelay
			if c.IsClassNew || g.WaitsForEarlier {
				delay = goneDelay
			}
			view.RequeueAt = policy.Earlier(view.RequeueAt, now.Add(delay))
		case c.Err != nil:
			g.Unknown = true
			errs = append(errs, c.Err)
		default:
			g.ClassInForce = c.ClassInForce
		}
	}
	return errors.Join(append(errs, ensured.QueueErr)...)
}
