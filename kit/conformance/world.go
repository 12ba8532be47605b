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
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/kit/model"
)

// world is a cluster in which one job lives, with a controller that is woken as a manager would wake it: by changes of
// what it watches and by the times that it asks for, and by nothing else.
type world struct {
	t       rapid.TB
	kind    model.Kind
	cluster *model.Cluster
	clock   *testingclock.FakePassiveClock
	options controller.Options

	process    *process
	reconciler reconcile.Reconciler
	// fault is what goes wrong, and how far the cache lags when the controller starts again after it has stopped.
	fault fault
	lag   lag
	// crashing is set if every process ends after its first write.
	crashing bool
	// stoppedAt is the revision of the cluster when the controller had stopped.
	stoppedAt int
	// writes of all processes so far, and the calls that made those that took effect.
	writes int
	calls  []model.Call
	// dirty is set if the controller was woken; wakeAt is when it wakes by itself, zero is never.
	dirty  bool
	wakeAt time.Time
	// errors is how many reconciles in a row failed.
	errors int
	// events that were emitted, by reason.
	events []string
	// registries hold the metrics of each process.
	registries []*prometheus.Registry
	// soon are steps that happen half a second after one another.
	soon []step
	// shape of the job as its user wrote it last.
	shape Shape
	// logger is that of the controller; the zero value discards what it is told.
	logger logr.Logger
	// closed is set if the queue admits nothing.
	closed bool
	// late is the write that the API server has yet to carry out, nil for none. unseen is the pod that such a write
	// created since the controller looked last.
	late   *model.LateWrite
	unseen types.UID
	// away is set while no controller runs.
	away bool
	// marked are the UIDs of pods that are to stay.
	marked map[int]types.UID
}

// lag is how far a cache is behind: the revision that it shows of some resources. Of others it shows the newest.
type lag map[model.Resources]int

func newWorld(t rapid.TB, k model.Kind) *world {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(model.Birth)
	w := &world{
		t: t, kind: k, clock: clock, marked: map[int]types.UID{},
		options: controller.Options{
			Settings: plan.Settings{
				ClusterDomain:  "cluster.local",
				Image:          "controller:test",
				PeerGrace:      30 * time.Second,
				FailureWindow:  2 * time.Second,
				NodeLostDelay:  time.Minute,
				DependentRetry: time.Minute,
			},
			StatusInterval: 5 * time.Second,
			Clock:          clock,
		},
	}
	w.cluster = model.NewClusterFor(k, clock, model.Snapshot{Objects: model.Objects{}}, func(change model.Change) {
		model.CheckLaws(t, k, w.cluster.Live(), change, model.Writer{IsController: w.process.writing, Unseen: w.unseen})
		if w.process.cache.Tell(change, w.process.writing) {
			w.dirty = true
		}
	})
	w.start(nil)
	return w
}

// start starts the controller, with a cache that lags so far behind.
func (w *world) start(behind lag) {
	registry := prometheus.NewRegistry()
	w.registries = append(w.registries, registry)
	cache := model.NewCache(w.cluster.Live())
	for of, revision := range behind {
		cache = cache.Behind(w.cluster.At(revision), of)
	}
	w.process = &process{world: w, cache: cache, fault: w.fault, crashing: w.crashing, looks: 1}
	reconciler, err := w.kind.NewReconciler(controller.Cluster{
		Client: model.NewClient(w.kind.Scheme, w.process), APIReader: model.NewAPIReader(w.kind.Scheme, w.process),
		Events: recorder{w}, Metrics: registry,
	}, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.reconciler = reconciler
	w.dirty, w.wakeAt, w.errors = true, time.Time{}, 0
}

// do lets steps happen, and the controller rest after each.
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

// carryOutLate lets the API server carry out the write that it is late with, if it is due.
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
	// retry is how soon the controller wakes at most where it waits for another try.
	retry = 200 * time.Millisecond
	// patience is how soon it wakes where it waits for the reports of peers.
	patience = 2 * time.Second
)

// settle lets the controller work until it rests, and the kubelets and the garbage collector with it.
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
		case w.process.cache.Lags() && w.process.looks == 0:
			w.process.catchUp(model.All)
		case w.dirty || w.wakesBy(w.clock.Now()):
			w.reconcile()
		case w.wakesBy(w.clock.Now().Add(retry)):
			w.clock.SetTime(w.wakeAt)
		case len(w.soon) > 0:
			w.clock.SetTime(w.clock.Now().Add(500 * time.Millisecond))
			next := w.soon[0]
			w.soon = w.soon[1:]
			next(w)
		case w.wakesBy(w.clock.Now().Add(patience)):
			w.clock.SetTime(w.wakeAt)
		case w.process.cache.Lags():
			w.process.catchUp(model.All)
		case w.cluster.ConsiderNew(w.closed):
		case w.confirmDeletion():
		case w.collectGarbage():
		default:
			return
		}
	}
	w.t.Fatalf("the controller never comes to rest: %s", w.describe())
}

func (w *world) wakesBy(t time.Time) bool { return !w.wakeAt.IsZero() && !w.wakeAt.After(t) }

func (w *world) reconcile() {
	w.dirty, w.wakeAt, w.unseen = false, time.Time{}, ""
	w.process.looks = max(0, w.process.looks-1)
	result, err := w.reconciler.Reconcile(log.IntoContext(context.Background(), w.logger),
		reconcile.Request{NamespacedName: model.JobKey})
	switch {
	case err != nil:
		w.wakeAt = w.clock.Now().Add(min(50*time.Millisecond<<w.errors, time.Minute))
		w.errors = min(w.errors+1, 20)
		return
	case result.RequeueAfter > 0:
		w.wakeAt = w.clock.Now().Add(result.RequeueAfter)
	}
	w.errors = 0
}

// confirmDeletion lets a kubelet end the containers of a pod that is being deleted, or let go of it.
func (w *world) confirmDeletion() bool {
	for _, pod := range model.ListOf[*corev1.Pod](w.cluster.Live()) {
		if ends := model.Ends(pod); ends != nil {
			w.befall(pod, ends)
			return true
		}
	}
	return false
}

// collectGarbage deletes an object whose owner is gone, or lets go of a job that has nothing left.
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

// pass lets time pass, in steps at which the controller wakes.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.clock.Now().Add(d)
	for w.wakesBy(end) {
		if w.wakeAt.After(w.clock.Now()) {
			w.clock.SetTime(w.wakeAt)
		}
		w.settle()
	}
	w.clock.SetTime(end)
	w.settle()
}

// job returns the job, or nil if there is none.
func (w *world) job() framework.Job { return w.cluster.Live().Job() }

// newJob returns a job of a shape as its user writes it.
func (w *world) newJob(s Shape) framework.Job { return w.kind.Job(s) }

// status returns the status of the job. The test ends if there is no job.
func (w *world) status() batchv1beta1.JobStatus {
	w.t.Helper()
	job := w.job()
	if job == nil {
		w.t.Fatal("the job is gone")
	}
	return *job.JobStatus()
}

// pods returns the pods of the job by index.
func (w *world) pods() []*corev1.Pod { return w.cluster.Live().Pods() }

func (w *world) remains() model.Remains { return w.cluster.Live().Remains() }

// describe returns a short summary of the world.
func (w *world) describe() string {
	return fmt.Sprintf("%s (%+v, the cache then being behind at %v)", w.cluster.Live().Describe(), w.fault, w.lag)
}

// pod returns the pod of an index. The test ends if there is none.
func (w *world) pod(index int) *corev1.Pod {
	w.t.Helper()
	for _, pod := range w.pods() {
		if pod.Labels[batchv1beta1.LabelReplicaIndex] == fmt.Sprint(index) {
			return pod
		}
	}
	w.t.Fatalf("there is no pod of index %d: %s", index, w.describe())
	return nil
}

// podName returns the name that the pod of an index has or will have.
func (w *world) podName(index int) string {
	replicaType := w.kind.SpecOf(w.newJob(Shape{Replicas: 1})).Roles[0].Type
	return framework.MemberName(model.JobKey.Name, replicaType, int32(index)) //nolint:gosec // an index is small
}

// recorder keeps the events of a process that still runs.
type recorder struct{ world *world }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	// Created tells of each act, and the replicas may be created in one or in several.
	if !r.world.process.stopped && reason != "Created" {
		r.world.events = append(r.world.events, reason)
	}
}

// metrics returns what all processes observed together: counters, and how often histograms were observed, by name and
// labels.
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
