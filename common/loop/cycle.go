package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/policy"
)

// Cycle is one reconcile of an object. All controllers use the same cycle: it observes the object, decides, adds to
// the observed state if the decision needs more, decides again, and acts. S is the observed state, and D is the
// decision.
type Cycle[S, D any] struct {
	// Clock is the source of the current time.
	Clock clock.PassiveClock
	// Observe reads the state of the object and of the objects that belong to it.
	Observe func(context.Context) (S, error)
	// Decide returns the decision for an observed state. It is a pure function.
	Decide func(seen S) D
	// First are the steps that read the facts that a decision still needs, for example from the API server itself. Run
	// calls each step once, in this order. A step does nothing if the decision does not need it.
	First []Step[S, D]
	// Act carries out the decision: it writes the status, emits the events of that write, and changes other objects. It
	// returns when to requeue the object.
	Act func(ctx context.Context, seen S, d D) (Requeue, error)
}

// Step reads the facts that the decision still needs, if any, and adds them to the state. It reports whether the
// state has changed. If so, Run decides again.
type Step[S, D any] func(ctx context.Context, seen *S, d D) (bool, error)

// Run reconciles the object. It returns an error if the object must be retried with backoff.
func (c *Cycle[S, D]) Run(ctx context.Context) (reconcile.Result, error) {
	seen, err := c.Observe(ctx)
	if err != nil {
		return Retry(err)
	}
	d := c.Decide(seen)
	for _, step := range c.First {
		changed, err := step(ctx, &seen, d)
		if err != nil {
			return Retry(err)
		}
		if changed {
			d = c.Decide(seen)
		}
	}
	requeue, err := c.Act(ctx, seen, d)
	if err != nil {
		return Retry(err)
	}
	return requeue.result(c.Clock.Now()), nil
}

// ConflictDelay is how long a controller waits after a conflict before it reconciles the object again, so that its
// cache can catch up. The controller cannot rely on an event, because there might be none for the change that caused
// the conflict.
const ConflictDelay = 100 * time.Millisecond

// Retry returns the result of a reconcile that has failed: a conflict and a lack of memory are retried after a fixed
// delay, and other errors with the backoff of the work queue.
func Retry(err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, large.ErrNoMemory):
		return reconcile.Result{RequeueAfter: large.Delay}, nil
	case isConflict(err):
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	default:
		return reconcile.Result{}, err
	}
}

// isConflict reports whether an error is a conflict. Joined errors count as a conflict only if all of them are
// conflicts. Otherwise, the other errors would be lost, because Retry returns no error for a conflict.
func isConflict(err error) bool {
	joined, isJoined := err.(interface{ Unwrap() []error })
	if !isJoined {
		return apierrors.IsConflict(err)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isConflict(err) })
}

// Requeue is when to reconcile an object again if no event requeues the object earlier. The zero value means never.
type Requeue struct {
	// At is the time of the next reconcile. Zero means never.
	At time.Time
	// Priority is the priority in the work queue. Nil means the priority of the last event.
	Priority *int
}

// By ensures that the object is reconciled again by the time t at the latest. A zero t changes nothing.
func (r *Requeue) By(t time.Time) { r.At = policy.Earlier(r.At, t) }

func (r *Requeue) result(now time.Time) reconcile.Result {
	if r.At.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(r.At.Sub(now), time.Millisecond), Priority: r.Priority} // 0 means never
}
