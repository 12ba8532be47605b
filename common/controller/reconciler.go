// Package controller runs the jobs of any framework. It observes what the cluster holds of a job, has package plan decide what to do about
// it, and executes the decision. It decides nothing itself.
package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

// Options of a Reconciler.
type Options struct {
	plan.Settings

	// StatusInterval is how long replica status changes are batched before a write, and that a job has begun. The end of a replica is
	// batched for a second at most. Changes of the phase, conditions and counts are written immediately.
	StatusInterval time.Duration
	// Namespace is the one namespace to work in; empty is all.
	Namespace string
	// Workers is how many jobs are reconciled at the same time.
	Workers int
	// Clock tells the time.
	Clock clock.PassiveClock
	// Memory of the Reconciler; nil is an empty one.
	Memory *Memory
}

// DefaultOptions returns the options that fit a busy cluster.
func DefaultOptions() Options {
	return Options{
		Settings: plan.Settings{
			PeerGrace:      30 * time.Second,
			FailureWindow:  2 * time.Second,
			NodeLostDelay:  time.Minute,
			DependentRetry: time.Minute,
		},
		StatusInterval: 5 * time.Second,
		Workers:        16,
		Clock:          clock.RealClock{},
	}
}

// Cluster is how a Reconciler reaches the cluster.
type Cluster struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server itself.
	APIReader client.Reader
	// Events records what happens to a job for its user.
	Events events.EventRecorder
	// Metrics is where the Reconciler registers its metrics.
	Metrics prometheus.Registerer
}

// Reconciler runs the jobs of one framework.
type Reconciler[J framework.Job] struct {
	client       client.Client
	apiReader    client.Reader
	events       events.EventRecorder
	framework    framework.Framework[J]
	gvk          schema.GroupVersionKind
	options      Options
	metrics      *jobMetrics
	registry     prometheus.Registerer
	podGroups    *dependents.PodGroups
	tensorBoards *dependents.TensorBoards
}

// ownerIndex indexes pods by the UID of the job that controls them.
const ownerIndex = "batch.tensorstack.dev/owner"

// New returns the reconciler of a framework's jobs. It returns an error if the client's scheme does not know their kind, or
// if the metrics cannot be registered.
func New[J framework.Job](cluster Cluster, f framework.Framework[J], options Options) (*Reconciler[J], error) {
	gvk, err := apiutil.GVKForObject(f.NewJob(), cluster.Client.Scheme())
	if err != nil {
		return nil, err
	}
	metrics, err := newJobMetrics(cluster.Metrics, gvk.Kind)
	if err != nil {
		return nil, err
	}
	if options.Memory == nil {
		options.Memory = &Memory{}
	}
	reach := dependents.Cluster{Client: cluster.Client, APIReader: cluster.APIReader}
	return &Reconciler[J]{
		client:    cluster.Client,
		apiReader: cluster.APIReader,
		events:    cluster.Events,
		framework: f,
		gvk:       gvk,
		options:   options,
		metrics:   metrics,
		registry:  cluster.Metrics,
		podGroups: dependents.NewPodGroups(reach),
		tensorBoards: dependents.NewTensorBoards(
			reach, &options.Memory.tensorBoards, options.Clock, options.DependentRetry),
	}, nil
}

// SetupWithManager registers the reconciler with the manager. It returns an error if the manager refuses, or if the metrics
// cannot be registered.
func (r *Reconciler[J]) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := r.registry.Register(newJobCollector(mgr.GetCache(), mgr.GetScheme(), r.gvk, mgr.Elected())); err != nil {
		return err
	}
	// A copy that is to lead has read all there is. The controller itself would not read before it leads; its option to warm up would fill
	// a queue which nobody empties until then.
	for _, object := range []client.Object{r.framework.NewJob(), &corev1.Pod{}, &corev1.Service{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, ownerIndex, ownerUID); err != nil {
		return err
	}
	c, err := builder.ControllerManagedBy(mgr).
		For(r.framework.NewJob(), builder.WithPredicates(noUpdates)).
		Watches(r.framework.NewJob(), changesOfUser(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.podEvents()).
		Owns(&corev1.Service{}, builder.WithPredicates(deletions)).
		WithOptions(control.Options(r.options.Workers)).
		Build(r)
	if err != nil {
		return err
	}
	jobs := dependents.Jobs{
		Kind:       r.gvk,
		Empty:      r.framework.NewJob(),
		Controller: c,
		Namespace:  r.options.Namespace,
		Retry:      r.options.DependentRetry,
		Clock:      r.options.Clock,
	}
	r.podGroups.Watch(mgr, jobs)
	r.tensorBoards.Watch(mgr, jobs)
	return nil
}

// noUpdates lets nothing through of an object that was known.
var noUpdates = predicate.Funcs{UpdateFunc: func(ctrlevent.UpdateEvent) bool { return false }}

// deletions lets through that an object is gone: nothing else about a Service matters to a job.
var deletions = predicate.Funcs{
	CreateFunc:  func(ctrlevent.CreateEvent) bool { return false },
	UpdateFunc:  func(ctrlevent.UpdateEvent) bool { return false },
	GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
}

func ownerUID(object client.Object) []string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Reconcile brings one job closer to what its spec says. It returns an error for what is worth another try.
func (r *Reconciler[J]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	job := r.framework.NewJob()
	if err := r.client.Get(ctx, request.NamespacedName, job); err != nil {
		r.options.Memory.forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.options.Clock.Now()
	planned := r.planned(job)
	seen, err := r.observe(ctx, job, planned.Spec, false)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(planned, seen, now)
	//mutant:a cache is trusted => if true {
	if !d.NeedsLiveRead || r.onlyDelays(planned, d) {
		return r.execute(ctx, job, planned, d)
	}
	live, err := r.observe(ctx, job, planned.Spec, true)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.execute(ctx, job, planned, decide(planned, live, now))
	//mutant:a watch is trusted to report each pod => if false {
	if err == nil && live.HasMoreThan(seen.Observation, planned.UID) {
		// The cache may never tell of an object that it lacks: it may be gone before a watch that broke is resumed.
		result = sooner(result, plan.CacheDelay)
	}
	return result, err
}

// observe reads what the cluster holds of the job: what a cache has, or live, what the API server has of all that must
// not be guessed.
func (r *Reconciler[J]) observe(
	ctx context.Context, job J, spec framework.JobSpec, live bool,
) (observation, error) {
	var seen observation
	var reader client.Reader = r.client
	var pods client.ListOption = client.MatchingFields{ownerIndex: string(job.GetUID())}
	if live {
		reader, pods = r.apiReader, client.MatchingLabels(plan.SelectorLabels(r.gvk.Kind, job.GetName()))
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(job.GetNamespace()), pods, client.UnsafeDisableDeepCopy); err != nil {
		return seen, err
	}
	seen.Pods = make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			seen.Pods[list.Items[i].Name] = &list.Items[i]
		}
	}
	var service corev1.Service
	err := r.client.Get(ctx, types.NamespacedName{Namespace: job.GetNamespace(), Name: job.GetName()}, &service)
	seen.HasService = err == nil && metav1.IsControlledBy(&service, job)
	seen.tensorBoard = r.tensorBoards.Observe(ctx, job)
	if spec.T9kScheduler() != nil && job.GetDeletionTimestamp().IsZero() {
		seen.Admission = r.podGroups.Observe(ctx, job, live)
	}
	seen.StatusWaitsSince = r.options.Memory.WaitsSince(client.ObjectKeyFromObject(job))
	return seen, client.IgnoreNotFound(err)
}

// planned returns the job as plan.Decide needs to know it.
func (r *Reconciler[J]) planned(job J) plan.Job {
	return plan.Job{
		Kind:           r.gvk,
		Namespace:      job.GetNamespace(),
		Name:           job.GetName(),
		UID:            job.GetUID(),
		Generation:     job.GetGeneration(),
		Deleting:       !job.GetDeletionTimestamp().IsZero(),
		Created:        job.GetCreationTimestamp().Time,
		Spec:           r.framework.JobSpec(job),
		Status:         *job.JobStatus(),
		Settings:       r.options.Settings,
		MainContainers: r.framework.MainContainers(),
		Wire: func(gang framework.Gang, member framework.Member, template *corev1.PodTemplateSpec) error {
			return r.framework.Wire(job, gang, member, template)
		},
	}
}
