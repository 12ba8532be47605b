package conformance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan"
)

// birth is when every world begins.
var birth = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

var jobKey = types.NamespacedName{Namespace: "ns", Name: "job"}

// world is a cluster in which one job lives, with a controller that is woken as a manager would wake it: by changes of what it
// watches and by the times that it asks for, and by nothing else.
type world struct {
	t       rapid.TB
	kind    kind
	cluster *Cluster
	clock   *testingclock.FakePassiveClock
	options controller.Options

	process    *process
	reconciler reconcile.Reconciler
	// fault is what goes wrong, and how far the cache lags when the controller starts again after it has stopped.
	fault fault
	lag   map[string]int
	// crashing says that every process ends after its first write.
	crashing bool
	// stoppedAt is the revision of the cluster when the controller had stopped.
	stoppedAt int
	// writes of all processes so far.
	writes int
	// dirty says that the controller was woken; wakeAt is when it wakes by itself, zero is never.
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
	// lost are the nodes that do not answer.
	lost map[string]bool
	// shape of the job as its user wrote it last.
	shape Shape
	// logger is that of the controller; the zero value discards what it is told.
	logger logr.Logger
	// closed says that the queue admits nothing.
	closed bool
	// marked are the UIDs of pods that are to stay.
	marked map[int]types.UID
}

func newWorld(t rapid.TB, k kind) *world {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(birth)
	w := &world{
		t: t, kind: k, clock: clock, cluster: NewCluster(k.scheme, clock), lost: map[string]bool{}, marked: map[int]types.UID{},
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
	w.cluster.specOf = k.specOf
	w.cluster.onChange = func(kind string, before, after client.Object) {
		checkLaws(t, k, w.cluster.live(), before, after)
		w.watch(kind, before, after)
	}
	w.start(nil)
	return w
}

// start starts the controller, with a cache that lags so far behind.
func (w *world) start(lag map[string]int) {
	registry := prometheus.NewRegistry()
	w.registries = append(w.registries, registry)
	w.process = &process{
		cluster: w.cluster, fault: w.fault, crashing: w.crashing, writes: &w.writes, catchUp: w.catchUp,
		behind: map[string]int{}, looks: 1,
	}
	maps.Copy(w.process.behind, lag)
	reconciler, err := w.kind.newReconciler(controller.Cluster{
		Client: w.process, APIReader: apiReader{process: w.process}, Events: recorder{w}, Metrics: registry,
	}, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.reconciler = reconciler
	w.dirty, w.wakeAt, w.errors = true, time.Time{}, 0
}

// watch wakes the controller, if it watches such a change and its cache does not lag.
func (w *world) watch(kind string, before, after client.Object) {
	if _, behind := w.process.behind[kind]; !behind {
		w.dirty = w.dirty || wakes(before, after)
	}
}

// wakes says whether a change wakes the controller, as SetupWithManager of the job controller determines.
func wakes(before, after client.Object) bool {
	switch object := cmp.Or(after, before).(type) {
	case *corev1.Pod:
		return owned(object)
	case *corev1.Service:
		return after == nil
	case *tensorboardv1beta1.TensorBoard, *schedulerv1beta1.PodGroup:
		return owned(object)
	default:
		return before == nil || after == nil || before.GetGeneration() != after.GetGeneration()
	}
}

// catchUp lets the cache of a kind have what it lacks.
func (w *world) catchUp(kind string) {
	revision, ok := w.process.behind[kind]
	if !ok {
		return
	}
	delete(w.process.behind, kind)
	for next := revision + 1; next <= w.cluster.revision(); next++ {
		if before, after := w.cluster.changeTo(next); w.cluster.kindOf(cmp.Or(after, before)) == kind {
			w.dirty = w.dirty || wakes(before, after)
		}
	}
}

func (w *world) catchUpAll() {
	for kind := range w.process.behind {
		w.catchUp(kind)
	}
}

// do lets steps happen, and the controller rest after each.
func (w *world) do(steps ...step) {
	w.t.Helper()
	for _, step := range steps {
		step(w)
		w.settle()
	}
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
		case w.process.stopped:
			w.stoppedAt = w.cluster.revision()
			w.start(w.lag)
		case len(w.process.behind) > 0 && w.process.looks == 0:
			w.catchUpAll()
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
		case len(w.process.behind) > 0:
			w.catchUpAll()
		case w.admits():
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
	w.dirty, w.wakeAt = false, time.Time{}
	w.process.looks = max(0, w.process.looks-1)
	result, err := w.reconciler.Reconcile(log.IntoContext(context.Background(), w.logger), reconcile.Request{NamespacedName: jobKey})
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

// admits lets the scheduler-controller consider the job's PodGroup, if that is new or was changed.
func (w *world) admits() bool {
	group := w.cluster.live().unconsidered()
	if group == nil {
		return false
	}
	w.cluster.consider(group, w.closed)
	return true
}

// confirmDeletion lets a kubelet end the containers of a pod that is being deleted, and then let go of it.
func (w *world) confirmDeletion() bool {
	for _, pod := range list[*corev1.Pod](w.cluster.live()) {
		if pod.DeletionTimestamp == nil || w.lost[pod.Spec.NodeName] {
			continue
		}
		if pod.Status.Phase == corev1.PodRunning {
			// One program saves its work and exits with 0, the next does not know the signal.
			code := kubelet.ExitTerminated
			if pod.Labels[batchv1beta1.LabelReplicaIndex] == "0" {
				code = 0
			}
			w.cluster.Change(pod, func(p *corev1.Pod) { kubelet.Exit(p, code, "", w.clock.Now()) })
		} else {
			w.cluster.put(w.cluster.keyOf(pod), nil)
		}
		return true
	}
	return false
}

// collectGarbage deletes an object whose owner is gone.
func (w *world) collectGarbage() bool {
	alive := map[types.UID]bool{}
	for _, object := range w.cluster.live() {
		alive[object.GetUID()] = true
	}
	for _, object := range w.cluster.live() {
		if owner := metav1.GetControllerOf(object); owner != nil && !alive[owner.UID] {
			w.cluster.put(w.cluster.keyOf(object), nil)
			return true
		}
	}
	return false
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
func (w *world) job() framework.Job { return w.cluster.live().job() }

// newJob returns a job of a shape as its user writes it.
func (w *world) newJob(s Shape) framework.Job { return w.kind.job(s) }

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
func (w *world) pods() []*corev1.Pod { return w.cluster.live().pods() }

func (w *world) remains() remains { return w.cluster.live().remains() }

// describe says in few lines how the world stands.
func (w *world) describe() string {
	return fmt.Sprintf("%s (%+v, the cache then being behind at %v)", w.cluster.live().describe(), w.fault, w.lag)
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
	return framework.MemberName(jobKey.Name, w.kind.specOf(w.newJob(Shape{Replicas: 1})).Roles[0].Type, int32(index)) //nolint:gosec // an index is small
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

// metrics returns what all processes observed together: counters, and how often histograms were observed, by name and labels.
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
