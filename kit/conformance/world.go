package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/driver"
	"tensorstack.dev/jobs/kit/model"
)

// world is a simulated cluster with one job and its controller. As in a real manager, only changes of watched objects
// and requeue times enqueue a reconcile.
type world struct {
	driver.Driver

	t       rapid.TB
	options controller.Options

	process    *process
	reconciler reconcile.Reconciler
	// fault is the injected fault. lag is how stale the cache is when the controller restarts after a stop.
	fault fault
	lag   lag
	// crashing is set if every process ends after its first write.
	crashing bool
	// stoppedAt is the revision of the cluster when the controller stopped.
	stoppedAt int
	// writes is the number of writes by all processes so far. calls are the writes that took effect.
	writes int
	calls  []model.Call
	// errors is the number of consecutive reconciles that failed.
	errors int
	// events are the reasons of the emitted events.
	events []string
	// registries hold the metrics of each process.
	registries []*prometheus.Registry
	// soon are steps that happen one after the other at intervals of half a second.
	soon []step
	// shape is the current spec of the job.
	shape Shape
	// logger is the logger of the controller. The zero value discards all lines.
	logger logr.Logger
	// closed is set if the queue is closed.
	closed bool
	// away is set while no controller runs.
	away bool
	// marked are the UIDs of pods that must stay, by index.
	marked map[int]types.UID
	// witness observes the world. Nil means that nobody does.
	witness witness
}

// witness observes a world. Its methods can be called in parallel.
type witness interface {
	// changed is called for each change of the cluster.
	changed(change model.Change, byController bool)
	// readLive is called for each live read of the controller.
	readLive(model.Call)
	// emitted is called for each event of the controller.
	emitted(eventtype, reason, message string)
}

// lag describes how stale a cache is. It maps some resources to the revision at which the cache shows them. The cache
// shows all other resources at the newest revision.
type lag map[model.Resources]int

func newWorld(t rapid.TB, k model.Kind) *world {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(model.Birth)
	w := &world{
		t: t, marked: map[int]types.UID{},
		options: controller.Options{
			Settings: view.Settings{
				ClusterDomain:      "cluster.local",
				Image:              "controller:test",
				PeerGrace:          30 * time.Second,
				FailureWindow:      2 * time.Second,
				NodeLostDelay:      time.Minute,
				AvoidNodesFor:      avoidance,
				AvoidNodesPatience: avoidancePatience,
				DependentRetry:     time.Minute,
			},
			StatusInterval: 5 * time.Second,
			Clock:          clock,
		},
	}
	w.Driver = driver.Driver{Kind: k, Clock: clock, Laws: t, OnChange: func(change model.Change, byController bool) {
		if w.witness != nil {
			w.witness.changed(change, byController)
		}
	}}
	w.Continue(&driver.State{}, model.Snapshot{Objects: model.Objects{}})
	w.start(nil)
	return w
}

// start starts a controller process. The parameter behind describes how stale its cache is. Nil means not stale.
func (w *world) start(behind lag) {
	registry := prometheus.NewRegistry()
	w.registries = append(w.registries, registry)
	cache := model.NewCache(w.Cluster.Live())
	for of, revision := range behind {
		cache = cache.Behind(w.Cluster.At(revision), of)
	}
	w.StartAgain(cache)
	w.process = &process{world: w, fault: w.fault, crashing: w.crashing, staleReconciles: 1}
	reconciler, err := driver.NewReconciler(w.Kind, w.process, recorder{w}, registry, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.reconciler, w.errors = reconciler, 0
}

// do runs steps and settles the world after each.
func (w *world) do(steps ...step) {
	w.t.Helper()
	for _, step := range steps {
		if w.Late != nil {
			w.carryOutLate(w.fault.steps == 0)
			w.fault.steps--
		}
		step(w)
		w.settle()
	}
}

// carryOutLate makes the API server carry out its delayed write, if there is one and the parameter due is true.
func (w *world) carryOutLate(due bool) {
	w.t.Helper()
	if w.Late == nil || !due {
		return
	}
	w.CarryOutLate()
	w.settle()
}

const (
	// retry is the longest requeue delay that settle regards as a retry. Retries happen before the steps in w.soon.
	retry = 200 * time.Millisecond
	// patience is the longest time that the controller waits until the kubelets of the other replicas report their
	// failures. Such a wait ends after the steps in w.soon.
	patience = 2 * time.Second
)

// settle runs the controller, unless it is away, and the other components of the cluster until none of them has work
// to do.
func (w *world) settle() {
	w.t.Helper()
	for range 200 {
		switch {
		case w.away:
			if !w.Cluster.ConsiderNew(w.closed) && !w.confirmDeletion() && !w.collectGarbage() {
				return
			}
		case w.process.stopped:
			w.stoppedAt = w.Cluster.Revision()
			w.start(w.lag)
		case w.Cache.Lags() && w.process.staleReconciles == 0:
			w.CatchUp(model.All)
		case w.Dirty || w.requeuedBy(w.Clock.Now()):
			w.reconcile()
		case w.requeuedBy(w.Clock.Now().Add(retry)):
			w.Clock.SetTime(w.RequeueAt)
		case len(w.soon) > 0:
			w.Clock.SetTime(w.Clock.Now().Add(500 * time.Millisecond))
			next := w.soon[0]
			w.soon = w.soon[1:]
			next(w)
		case w.requeuedBy(w.Clock.Now().Add(patience)):
			w.Clock.SetTime(w.RequeueAt)
		case w.Cache.Lags():
			w.CatchUp(model.All)
		case w.Cluster.ConsiderNew(w.closed):
		case w.confirmDeletion():
		case w.collectGarbage():
		default:
			return
		}
	}
	w.t.Fatalf("the controller still has work after 200 steps: %s", w.describe())
}

func (w *world) requeuedBy(t time.Time) bool { return !w.RequeueAt.IsZero() && !w.RequeueAt.After(t) }

func (w *world) reconcile() {
	w.BeginReconcile()
	w.process.staleReconciles = max(0, w.process.staleReconciles-1)
	result, err := w.reconciler.Reconcile(log.IntoContext(context.Background(), w.logger),
		reconcile.Request{NamespacedName: model.JobKey})
	switch {
	case err != nil:
		w.RequeueAt = w.Clock.Now().Add(min(50*time.Millisecond<<w.errors, time.Minute))
		w.errors = min(w.errors+1, 20)
		return
	case result.RequeueAfter > 0:
		w.RequeueAt = w.Clock.Now().Add(result.RequeueAfter)
	}
	w.errors = 0
}

// confirmDeletion makes a kubelet stop the containers of a pod that is being deleted, or remove the pod. It reports
// whether there was such a pod.
func (w *world) confirmDeletion() bool {
	for _, pod := range model.ListOf[*corev1.Pod](w.Cluster.Live()) {
		if ends := model.Ends(pod); ends != nil {
			w.happenTo(pod, ends)
			return true
		}
	}
	return false
}

// collectGarbage deletes an object whose owner is gone or being deleted, or removes a job that has no dependents left.
// It reports whether there was work to do.
func (w *world) collectGarbage() bool {
	live := w.Cluster.Live()
	garbage, letsGoOfJob := live.Garbage()
	switch {
	case len(garbage) > 0:
		w.remove(live[garbage[0]])
	case letsGoOfJob:
		w.Cluster.LetGo(model.Key(w.Kind.Name, model.JobKey))
	}
	return len(garbage) > 0 || letsGoOfJob
}

// pass lets time pass and reconciles the job at each requeue time.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.Clock.Now().Add(d)
	for w.requeuedBy(end) {
		if w.RequeueAt.After(w.Clock.Now()) {
			w.Clock.SetTime(w.RequeueAt)
		}
		w.settle()
	}
	w.Clock.SetTime(end)
	w.settle()
}

// job returns the job, or nil if it does not exist.
func (w *world) job() framework.Job { return w.Cluster.Live().Job() }

// newJob returns a job of a shape as a user writes it.
func (w *world) newJob(s Shape) framework.Job { return w.Kind.Job(s) }

// status returns the status of the job. The test fails if the job does not exist.
func (w *world) status() batchv1beta1.JobStatus {
	w.t.Helper()
	job := w.job()
	if job == nil {
		w.t.Fatal("the job does not exist, want its status")
	}
	return *job.JobStatus()
}

// pods returns the pods of the job, sorted by name.
func (w *world) pods() []*corev1.Pod { return w.Cluster.Live().Pods() }

func (w *world) remains() model.Remains { return w.Cluster.Live().Remains() }

// describe returns a short summary of the world.
func (w *world) describe() string {
	return fmt.Sprintf("%s (the fault is %+v; the stale caches then show the revisions %v)",
		w.Cluster.Live().Describe(), w.fault, w.lag)
}

// pod returns the pod of an index. The test fails if it does not exist.
func (w *world) pod(index int) *corev1.Pod {
	w.t.Helper()
	for _, pod := range w.pods() {
		if pod.Labels[batchv1beta1.LabelReplicaIndex] == fmt.Sprint(index) {
			return pod
		}
	}
	w.t.Fatalf("the pod of index %d does not exist: %s", index, w.describe())
	return nil
}

// podName returns the name of the pod of an index. The pod need not exist.
func (w *world) podName(index int) string {
	replicaType := w.Kind.SpecOf(w.newJob(Shape{Replicas: 1})).Roles[0].Type
	return framework.MemberName(model.JobKey.Name, replicaType, int32(index)) //nolint:gosec // an index is small
}

// recorder records the events of a process while the process runs.
type recorder struct{ world *world }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	if r.world.witness != nil {
		r.world.witness.emitted(eventtype, reason, fmt.Sprintf(note, args...))
	}
	// Events with the reason Created are not recorded. Their number varies, since the replicas can be created in one or
	// in several reconciles.
	if !r.world.process.stopped && reason != "Created" {
		r.world.events = append(r.world.events, reason)
	}
}

// metrics returns the sums of the metrics of all processes, by name and labels. A counter adds its value to the sum,
// and a histogram adds its number of observations.
func (w *world) metrics() map[string]float64 {
	sums := map[string]float64{}
	for _, registry := range w.registries {
		families, err := registry.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := fmt.Sprint(family.GetName(), metric.GetLabel())
				sums[name] += metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return sums
}
