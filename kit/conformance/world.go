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
	"tensorstack.dev/jobs/kit/model"
)

// world is a simulated cluster with one job and its controller. As in a real manager, only changes of watched objects
// and requeue times enqueue a reconcile.
type world struct {
	t       rapid.TB
	kind    model.Kind
	cluster *model.Cluster
	clock   *testingclock.FakePassiveClock
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
	// dirty is set if the job is in the work queue. requeueAt is the time at which the job is added to the queue. Zero
	// means never.
	dirty     bool
	requeueAt time.Time
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
	// late is the delayed write that the API server has not made yet. Nil means none. unseen is the UID of the pod that a
	// delayed write created since the last reconcile began. Empty means none.
	late   *model.LateWrite
	unseen types.UID
	// away is set while no controller runs.
	away bool
	// stalls is the number of stalls that the status has recorded as failures.
	stalls int
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
		t: t, kind: k, clock: clock, marked: map[int]types.UID{},
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
	w.cluster = model.NewClusterFor(k, clock, model.Snapshot{Objects: model.Objects{}}, func(change model.Change) {
		model.CheckLaws(t, k, w.cluster.Live(), change, model.Writer{
			IsController: w.process.writing, Unseen: w.unseen, Trainings: w.cluster.Trainings(), Now: clock.Now(),
		})
		if w.witness != nil {
			w.witness.changed(change, w.process.writing)
		}
		before, wasJob := change.Before.(framework.Job)
		if after, isJob := change.After.(framework.Job); wasJob && isJob &&
			model.RecordsStall(*before.JobStatus(), *after.JobStatus()) {
			w.stalls++
		}
		if w.process.cache.Tell(change, w.process.writing) {
			w.dirty = true
		}
	})
	w.start(nil)
	return w
}

// start starts a controller process. The parameter behind describes how stale its cache is. Nil means not stale.
func (w *world) start(behind lag) {
	registry := prometheus.NewRegistry()
	w.registries = append(w.registries, registry)
	cache := model.NewCache(w.cluster.Live())
	for of, revision := range behind {
		cache = cache.Behind(w.cluster.At(revision), of)
	}
	w.cluster.ForgetReadings()
	w.process = &process{world: w, cache: cache, fault: w.fault, crashing: w.crashing, staleReconciles: 1}
	reconciler, err := w.kind.NewReconciler(controller.Cluster{
		Client: model.NewClient(w.kind.Scheme, w.process), APIReader: model.NewAPIReader(w.kind.Scheme, w.process),
		Events: recorder{w}, Metrics: registry, Progress: model.NewProgress(w.process),
	}, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.reconciler = reconciler
	w.dirty, w.requeueAt, w.errors = true, time.Time{}, 0
}

// do runs steps and settles the world after each.
func (w *world) do(steps ...step) {
	w.t.Helper()
	for _, step := range steps {
		if w.late != nil {
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
	if w.late == nil || !due {
		return
	}
	late := w.late
	w.late = nil
	w.unseen = late.CarryOut(w.cluster)
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
			if !w.cluster.ConsiderNew(w.closed) && !w.confirmDeletion() && !w.collectGarbage() {
				return
			}
		case w.process.stopped:
			w.stoppedAt = w.cluster.Revision()
			w.start(w.lag)
		case w.process.cache.Lags() && w.process.staleReconciles == 0:
			w.process.catchUp(model.All)
		case w.dirty || w.requeuedBy(w.clock.Now()):
			w.reconcile()
		case w.requeuedBy(w.clock.Now().Add(retry)):
			w.clock.SetTime(w.requeueAt)
		case len(w.soon) > 0:
			w.clock.SetTime(w.clock.Now().Add(500 * time.Millisecond))
			next := w.soon[0]
			w.soon = w.soon[1:]
			next(w)
		case w.requeuedBy(w.clock.Now().Add(patience)):
			w.clock.SetTime(w.requeueAt)
		case w.process.cache.Lags():
			w.process.catchUp(model.All)
		case w.cluster.ConsiderNew(w.closed):
		case w.confirmDeletion():
		case w.collectGarbage():
		default:
			return
		}
	}
	w.t.Fatalf("the controller still has work after 200 steps: %s", w.describe())
}

func (w *world) requeuedBy(t time.Time) bool { return !w.requeueAt.IsZero() && !w.requeueAt.After(t) }

func (w *world) reconcile() {
	w.dirty, w.requeueAt, w.unseen = false, time.Time{}, ""
	w.process.staleReconciles = max(0, w.process.staleReconciles-1)
	result, err := w.reconciler.Reconcile(log.IntoContext(context.Background(), w.logger),
		reconcile.Request{NamespacedName: model.JobKey})
	switch {
	case err != nil:
		w.requeueAt = w.clock.Now().Add(min(50*time.Millisecond<<w.errors, time.Minute))
		w.errors = min(w.errors+1, 20)
		return
	case result.RequeueAfter > 0:
		w.requeueAt = w.clock.Now().Add(result.RequeueAfter)
	}
	w.errors = 0
}

// confirmDeletion makes a kubelet stop the containers of a pod that is being deleted, or remove the pod. It reports
// whether there was such a pod.
func (w *world) confirmDeletion() bool {
	for _, pod := range model.ListOf[*corev1.Pod](w.cluster.Live()) {
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
	live := w.cluster.Live()
	garbage, letsGoOfJob := live.Garbage()
	switch {
	case len(garbage) > 0:
		w.remove(live[garbage[0]])
	case letsGoOfJob:
		w.cluster.LetGo(model.Key(w.kind.Name, model.JobKey))
	}
	return len(garbage) > 0 || letsGoOfJob
}

// pass lets time pass and reconciles the job at each requeue time.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.clock.Now().Add(d)
	for w.requeuedBy(end) {
		if w.requeueAt.After(w.clock.Now()) {
			w.clock.SetTime(w.requeueAt)
		}
		w.settle()
	}
	w.clock.SetTime(end)
	w.settle()
}

// job returns the job, or nil if it does not exist.
func (w *world) job() framework.Job { return w.cluster.Live().Job() }

// newJob returns a job of a shape as a user writes it.
func (w *world) newJob(s Shape) framework.Job { return w.kind.Job(s) }

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
func (w *world) pods() []*corev1.Pod { return w.cluster.Live().Pods() }

func (w *world) remains() model.Remains { return w.cluster.Live().Remains() }

// describe returns a short summary of the world.
func (w *world) describe() string {
	return fmt.Sprintf("%s (the fault is %+v; the stale caches then show the revisions %v)",
		w.cluster.Live().Describe(), w.fault, w.lag)
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
	replicaType := w.kind.SpecOf(w.newJob(Shape{Replicas: 1})).Roles[0].Type
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
