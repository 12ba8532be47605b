package controller

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// noUpdates drops update events.
var noUpdates = predicate.Funcs{UpdateFunc: func(ctrlevent.UpdateEvent) bool { return false }}

// queueChanges drops updates that do not change the labels or annotations for Kueue.
var queueChanges = predicate.Funcs{
	UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		return !maps.Equal(onlyRead(e.ObjectOld.GetLabels()), onlyRead(e.ObjectNew.GetLabels())) ||
			!maps.Equal(onlyRead(e.ObjectOld.GetAnnotations()), onlyRead(e.ObjectNew.GetAnnotations()))
	},
}

// copiedChanges passes only updates that change the status of a job that MultiKueue runs in another cluster. Kueue
// copies the status from that cluster.
func (r *Reconciler[J]) copiedChanges() predicate.Funcs {
	return updates(func(before, after J) bool {
		return r.framework.JobSpec(after).RunsElsewhere() &&
			!equality.Semantic.DeepEqual(before.JobStatus(), after.JobStatus())
	})
}

// deviceFailures passes only updates whose new status records a failure because of an unhealthy device. If the
// response to such a status write is lost, the next reconcile can read an older status from the cache. That reconcile
// finds failures of other kinds in the pods again. But an unhealthy device can be healthy again by then, so that only
// the written status has the failure. So the event of the write must requeue the job.
func (r *Reconciler[J]) deviceFailures() predicate.Funcs {
	return updates(func(before, after J) bool { return policy.RecordsDevice(*before.JobStatus(), *after.JobStatus()) })
}

// waits passes only updates whose new status has another message about a wait for admission. If the response to such a
// status write is lost, the next reconcile can read an older status from the cache, whose message might be right again.
// So the event of the write must requeue the job.
func (r *Reconciler[J]) waits() predicate.Funcs {
	return updates(func(before, after J) bool { return policy.ChangesWait(*before.JobStatus(), *after.JobStatus()) })
}

// updates passes an update if match returns true for it, and drops all others. The arguments of match are the job
// before and after the update.
func updates[J framework.Job](match func(before, after J) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		before, wasJob := e.ObjectOld.(J)
		after, isJob := e.ObjectNew.(J)
		return wasJob && isJob && match(before, after)
	}}
}

// deletions passes only deletions. No other event of a Service matters to a job.
var deletions = predicate.Funcs{
	CreateFunc:  func(ctrlevent.CreateEvent) bool { return false },
	UpdateFunc:  func(ctrlevent.UpdateEvent) bool { return false },
	GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
}

// deletionsAndChanges passes deletions, and updates that change the spec.
var deletionsAndChanges = predicate.Funcs{
	CreateFunc:  func(ctrlevent.CreateEvent) bool { return false },
	UpdateFunc:  predicate.GenerationChangedPredicate{}.Update,
	GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
}
