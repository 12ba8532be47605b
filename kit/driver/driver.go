// Package driver runs the controller of a job on a model of its cluster. It has what scenarios, walks and explorations
// share: the laws that each change must fulfill, the cache and the work queue of the controller, and the faults that
// its writes meet. Its users decide which events happen, in which order, and which call meets which fault.
package driver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/model"
)

// State is the state of a controller that is not in its cluster. It is a value: copies do not affect each other.
type State struct {
	// Cache is the cache of the controller.
	Cache model.Cache
	// Dirty is set if the job is in the work queue. RequeueAt is the time at which the job is added to the queue. Zero
	// means never.
	Dirty     bool
	RequeueAt time.Time
	// Late is the delayed write that the API server has not made yet. Nil means none. Unseen is the UID of the pod that a
	// delayed write created since the last reconcile began. Empty means none.
	Late   *model.LateWrite
	Unseen types.UID
	// Stalls is the number of stalls that the status has recorded as failures.
	Stalls int
}

// Driver runs the controller of a job.
type Driver struct {
	Kind  model.Kind
	Clock *testingclock.FakePassiveClock
	// Laws gets the violations of laws.
	Laws model.Reporter
	// OnChange is called after each change of the cluster, before the cache gets the change. It can be nil.
	OnChange func(change model.Change, byController bool)

	// State is the current state of the controller, and Cluster is its cluster.
	*State

	Cluster *model.Cluster
	// writing is set while the API server makes a write of the controller.
	writing bool
}

// Continue sets the state of the controller and its cluster. The cluster continues from a snapshot.
func (d *Driver) Continue(s *State, from model.Snapshot) {
	d.State = s
	d.Cluster = model.NewClusterFor(d.Kind, d.Clock, from, d.changed)
}

// changed checks the laws for a change of the cluster, and updates the cache.
func (d *Driver) changed(change model.Change) {
	model.CheckLaws(d.Laws, d.Kind, d.Cluster.Live(), change, model.Writer{
		IsController: d.writing, Unseen: d.Unseen, Trainings: d.Cluster.Trainings(), Now: d.Clock.Now(),
	})
	before, wasJob := change.Before.(framework.Job)
	if after, isJob := change.After.(framework.Job); wasJob && isJob &&
		model.RecordsStall(*before.JobStatus(), *after.JobStatus()) {
		d.Stalls++
	}
	if d.OnChange != nil {
		d.OnChange(change, d.writing)
	}
	d.Dirty = d.Cache.Tell(change, d.writing) || d.Dirty
}

// CatchUp updates the cache to the live objects of some resources.
func (d *Driver) CatchUp(of model.Resources) {
	d.Dirty = d.Cache.CatchUp(d.Cluster.Live(), of) || d.Dirty
}

// StartAgain ends the process of the controller and starts another one with the given cache.
func (d *Driver) StartAgain(cache model.Cache) {
	d.Cluster.ForgetReadings()
	d.Cache, d.Dirty, d.RequeueAt = cache, true, time.Time{}
}

// BeginReconcile takes the job from the work queue.
func (d *Driver) BeginReconcile() {
	d.Dirty, d.RequeueAt, d.Unseen = false, time.Time{}, ""
}

// Write makes a write of the controller, which meets the given effect. An empty effect means no fault. The result
// isMade is false if the effect prevents or delays the write, or if the API server rejects it. If the API server
// rejects the write, the answer has its error, whatever the effect is.
//
// After a write without a fault, the cache contains it, except for writes of pods, PodGroups and Workloads, because no
// reconcile waits until the cache contains those.
func (d *Driver) Write(call model.Call, write model.Write, effect model.Effect) (answer model.Answer, isMade bool) {
	switch effect {
	case model.Refuse:
		return model.Refused(), false
	case model.Postpone:
		d.Late = write.Late(call)
		return model.Lost(call), false
	case model.Lose, model.Hide:
		d.Cache.Freeze(call.Resource)
	default: // the write takes effect immediately, and the cache can see it
	}
	d.writing = true
	answer = model.AnswerTo(call, d.Cluster, write)
	d.writing = false
	switch {
	case answer.Err != nil:
		return answer, false
	case effect == model.Lose:
		return model.Lost(call), true
	case effect == model.Hide:
		return answer, true
	}
	d.CatchUp(call.Resource &^ (model.PodGroups | model.Workloads | model.Pods))
	return answer, true
}

// CarryOutLate makes the API server carry out its delayed write. There must be one.
func (d *Driver) CarryOutLate() {
	late := d.Late
	d.Late = nil
	if pod := late.CarryOut(d.Cluster); pod != "" {
		d.Unseen = pod
	}
}

// Server answers the calls of a controller.
type Server interface {
	model.Server
	model.SidecarServer
}

// NewReconciler returns the controller of a kind. The server answers its calls.
func NewReconciler(
	k model.Kind, server Server, recorder events.EventRecorder, metrics prometheus.Registerer, options controller.Options,
) (reconcile.Reconciler, error) {
	return k.NewReconciler(controller.Cluster{
		Client: model.NewClient(k.Scheme, server), APIReader: model.NewAPIReader(k.Scheme, server),
		Events: recorder, Metrics: metrics, Progress: model.NewProgress(server),
	}, options)
}
