// Package controller runs the jobs of any framework. It observes the objects of a job, lets package plan decide, and
// executes the decision. It makes no decisions itself.
package controller

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/fair"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Options are the options of a Reconciler.
type Options struct {
	view.Settings

	// StatusInterval is how long replica status changes, and the first status of a job, are batched before a write. The
	// end of a replica is batched for at most one second. Changes of the phase, conditions and counts are written
	// immediately.
	StatusInterval time.Duration
	// NetworkPolicies configures the NetworkPolicies of jobs.
	NetworkPolicies network.Policies
	// ProgressReader selects the pods that read the progress of jobs: those of this controller. NetworkPolicies allow
	// them. If it is nil, NetworkPolicies do not.
	ProgressReader *networkingv1.NetworkPolicyPeer
	// Namespace is the only namespace to work in. Empty means all namespaces.
	Namespace string
	// Workers is the maximum number of jobs that are reconciled at the same time.
	Workers int
	// Clock is the source of the current time.
	Clock clock.PassiveClock
	// Memory is the memory of the Reconciler. Nil means an empty one.
	Memory *Memory
}

// DefaultOptions returns the options that fit a busy cluster.
func DefaultOptions() Options {
	return Options{
		Settings: view.Settings{
			HelperResources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			PeerGrace:          30 * time.Second,
			FailureWindow:      2 * time.Second,
			NodeLostDelay:      time.Minute,
			AvoidNodesFor:      time.Hour,
			AvoidNodesPatience: 5 * time.Minute,
			DependentRetry:     time.Minute,
		},
		StatusInterval: 5 * time.Second,
		Workers:        16,
		Clock:          clock.RealClock{},
	}
}

// Cluster holds the clients by which a Reconciler reaches the cluster.
type Cluster struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server itself.
	APIReader client.Reader
	// Outputs reads the output of containers. If Outputs is nil, only the end of the output is known, from the status
	// of the pod.
	Outputs Outputs
	// Progress reads the progress of pods. If Progress is nil, only the progress of pods that have ended is known.
	Progress Progress
	// Events records events about jobs.
	Events events.EventRecorder
	// Metrics is where the Reconciler registers its metrics.
	Metrics prometheus.Registerer
}

// Reconciler runs the jobs of one framework.
type Reconciler[J framework.Job] struct {
	client       client.Client
	apiReader    client.Reader
	outputs      Outputs
	progress     Progress
	events       events.EventRecorder
	framework    framework.Framework[J]
	gvk          schema.GroupVersionKind
	options      Options
	metrics      *jobMetrics
	registry     prometheus.Registerer
	podGroups    *dependents.PodGroups
	workloads    *dependents.Workloads
	tensorBoards *dependents.TensorBoards
	policies     network.Keeper
	// progressed has events for jobs whose progress has changed in a way that does not wait for the next reconcile.
	progressed chan ctrlevent.GenericEvent
	// watchQuotas begins to watch ResourceQuotas, when the first job waits for one. Nil means that nothing watches
	// them.
	watchQuotas func() error
	// jobs reads the jobs to reconcile.
	jobs large.Reader
	// pods limits the memory for the pods that are being created, in bytes.
	pods *fair.Pool
}

// ownerIndex indexes pods by the UID of the job that controls them.
const ownerIndex = "batch.tensorstack.dev/owner"

// New returns the reconciler of a framework's jobs. It returns an error if the client's scheme does not know their
// kind, or if the metrics cannot be registered.
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
	if cluster.Progress == nil {
		cluster.Progress = noProgress{}
	}
	reach := dependents.Cluster{Client: cluster.Client, APIReader: cluster.APIReader}
	return &Reconciler[J]{
		client:    cluster.Client,
		apiReader: cluster.APIReader,
		outputs:   cluster.Outputs,
		progress:  cluster.Progress,
		events:    cluster.Events,
		framework: f,
		gvk:       gvk,
		options:   options,
		metrics:   metrics,
		registry:  cluster.Metrics,
		podGroups: dependents.NewPodGroups(reach),
		workloads: dependents.NewWorkloads(reach, &options.Memory.words, options.Clock),
		tensorBoards: dependents.NewTensorBoards(
			reach, &options.Memory.tensorBoards, options.Clock, options.DependentRetry),
		policies:   network.Keeper{Client: cluster.Client, APIReader: cluster.APIReader},
		progressed: make(chan ctrlevent.GenericEvent, progressEvents),
		jobs:       newLargeJobs(cluster.APIReader),
		pods:       fair.NewPool(podMemory),
	}, nil
}

// SetupWithManager registers the reconciler with the manager. It returns an error if the manager does not accept it, or
// if the metrics cannot be registered.
func (r *Reconciler[J]) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	for _, collector := range []prometheus.Collector{
		newJobCollector(mgr.GetCache(), mgr.GetScheme(), r.gvk, mgr.Elected()),
		newProgressCollector(mgr.GetCache(), mgr.GetScheme(), r.gvk, mgr.Elected()),
	} {
		if err := r.registry.Register(collector); err != nil {
			return err
		}
	}
	// Fill the caches before this process is elected, so that a new leader can start immediately. By default a
	// controller starts its informers only after the election. Its option EnableWarmup would also fill the work queue,
	// which nothing drains before the election.
	read := []client.Object{r.framework.NewJob(), &corev1.Pod{}, &corev1.Service{}}
	if r.options.NetworkPolicies.Enabled {
		read = append(read, &networkingv1.NetworkPolicy{})
	}
	for _, object := range read {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	for field, values := range map[string]client.IndexerFunc{ownerIndex: ownerUID, heldIndex: r.jobsOfHeld} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, field, values); err != nil {
			return err
		}
	}
	b := builder.ControllerManagedBy(mgr).
		For(r.framework.NewJob(), builder.WithPredicates(noUpdates)).
		Watches(r.framework.NewJob(), changesOfUser(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, queueChanges, r.copiedChanges(), r.deviceFailures()))).
		Watches(&corev1.Pod{}, r.podEvents()).
		Owns(&corev1.Service{}, builder.WithPredicates(deletions)).
		WatchesRawSource(source.Channel(r.progressed, &handler.EnqueueRequestForObject{})).
		WithOptions(control.Options(r.options.Workers))
	if r.options.NetworkPolicies.Enabled {
		b.Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(deletionsAndChanges))
	}
	c, err := b.Build(r)
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
	r.watchQuotas = sync.OnceValue(func() error {
		return c.Watch(source.Kind(mgr.GetCache(), &corev1.ResourceQuota{}, r.quotaEvents()))
	})
	r.podGroups.Watch(mgr, jobs)
	r.workloads.Watch(mgr, jobs)
	r.tensorBoards.Watch(mgr, jobs)
	return nil
}

// noUpdates drops update events.
var noUpdates = predicate.Funcs{UpdateFunc: func(ctrlevent.UpdateEvent) bool { return false }}

// queueChanges drops updates that leave the labels and annotations for Kueue as they are.
var queueChanges = predicate.Funcs{
	UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		return !maps.Equal(onlyRead(e.ObjectOld.GetLabels()), onlyRead(e.ObjectNew.GetLabels())) ||
			!maps.Equal(onlyRead(e.ObjectOld.GetAnnotations()), onlyRead(e.ObjectNew.GetAnnotations()))
	},
}

// copiedChanges passes only changes of the status of jobs that MultiKueue runs in another cluster. Kueue copies them.
func (r *Reconciler[J]) copiedChanges() predicate.Funcs {
	return updates(func(before, after J) bool {
		return r.framework.JobSpec(after).RunsElsewhere() &&
			!equality.Semantic.DeepEqual(before.JobStatus(), after.JobStatus())
	})
}

// deviceFailures passes only changes of the status that record a failure because of an unhealthy device. If the
// response to the write was lost, the next reconcile can read an older status from the cache. Other failures are still
// visible in their pods then. A device can be healthy again, so that only this event requeues the job.
func (r *Reconciler[J]) deviceFailures() predicate.Funcs {
	return updates(func(before, after J) bool { return policy.RecordsDevice(*before.JobStatus(), *after.JobStatus()) })
}

// updates passes only the updates of jobs that match.
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

// deletionsAndChanges passes deletions and changes of the spec.
var deletionsAndChanges = predicate.Funcs{
	CreateFunc:  func(ctrlevent.CreateEvent) bool { return false },
	UpdateFunc:  predicate.GenerationChangedPredicate{}.Update,
	GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
}

func ownerUID(object client.Object) []string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Reconcile moves one job closer to its spec. It returns an error if a retry can succeed.
func (r *Reconciler[J]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	job := r.framework.NewJob()
	isLarge, release, err := r.jobs.Get(ctx, r.client, request.NamespacedName, job)
	if apierrors.IsNotFound(err) {
		if err := r.releaseStrays(ctx, request.NamespacedName, ""); err != nil {
			return reconcile.Result{}, err
		}
		r.options.Memory.forget(request.NamespacedName)
		r.forgetProgress(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if errors.Is(err, large.ErrNoMemory) {
		return reconcile.Result{RequeueAfter: large.Delay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	defer release()
	if err := r.releaseStrays(ctx, request.NamespacedName, job.GetUID()); err != nil {
		return reconcile.Result{}, err
	}
	now := r.options.Clock.Now()
	planned := r.planned(job)
	if isLarge {
		planned.RestSize = func() int { return sizeWithoutStatus(job) }
	}
	r.awaitWrites(ctx, request.NamespacedName)
	seen, err := r.observe(ctx, job, &planned, false, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decideAll(planned, seen, now)
	if !d.NeedsLiveRead || r.onlyDelays(planned, d) {
		return r.execute(ctx, job, planned, d)
	}
	live, err := r.observe(ctx, job, &planned, true, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	d = decideAll(planned, live, now)
	if readOutputs(ctx, r.outputs, live.Pods, d.Unclear) {
		d = decideAll(planned, live, now)
	}
	result, err := r.execute(ctx, job, planned, d)
	if err == nil && live.HasMoreThan(seen.Observation, planned.UID) {
		// The cache lacks an object. If the object is deleted before a broken watch is resumed, no event reports it.
		result = sooner(result, view.CacheDelay)
	}
	return result, err
}

// observe reads the objects of the job from the cache. If live is true, it reads pods and the admission from the API
// server instead.
func (r *Reconciler[J]) observe(
	ctx context.Context, job J, planned *view.Job, live bool, now time.Time,
) (observation, error) {
	var seen observation
	var reader client.Reader = r.client
	var pods client.ListOption = client.MatchingFields{ownerIndex: string(job.GetUID())}
	if live {
		reader, pods = r.apiReader, client.MatchingLabels(view.SelectorLabels(r.gvk.Kind, job.GetName()))
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(job.GetNamespace()), pods, client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency); err != nil {
		return seen, err
	}
	seen.Pods = make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			seen.Pods[list.Items[i].Name] = &list.Items[i]
		}
	}
	if err := r.observeNodes(ctx, seen.Pods); err != nil {
		return seen, err
	}
	var service corev1.Service
	err := r.client.Get(ctx, types.NamespacedName{Namespace: job.GetNamespace(), Name: job.GetName()}, &service)
	seen.HasService = r.options.Memory.hasService(job, err == nil && metav1.IsControlledBy(&service, job))
	if err := client.IgnoreNotFound(err); err != nil {
		return seen, err
	}
	if r.options.NetworkPolicies.Enabled {
		has, err := r.policies.Has(ctx, job, newNetworkPolicy(planned, r.options.NetworkPolicies, r.options.ProgressReader))
		if err != nil {
			return seen, err
		}
		seen.NeedsNetworkPolicy = !has
	}
	if planned.Spec.RunsHere() {
		seen.tensorBoard = r.tensorBoards.Observe(ctx, job)
	}
	r.observeProgress(job, planned, &seen.Observation, now)
	switch admissionOf(job, planned.Spec) {
	case byWorkload:
		seen.Admission = r.workloads.Observe(ctx, job, planned, live)
	case byPodGroup:
		seen.Admission = r.podGroups.Observe(ctx, job, live)
	case byNobody:
	}
	seen.StatusWaitsSince = r.options.Memory.WaitsSince(client.ObjectKeyFromObject(job))
	return seen, nil
}

// admitter is what admits the pods of a job.
type admitter int

const (
	// byNobody means that the pods need no admission.
	byNobody admitter = iota
	// byPodGroup means that a Queue admits the PodGroup of the job.
	byPodGroup
	// byWorkload means that Kueue admits the Workload of the job.
	byWorkload
)

// admissionOf returns what admits the pods of a job.
func admissionOf(job client.Object, spec framework.JobSpec) admitter {
	switch {
	case !job.GetDeletionTimestamp().IsZero():
		return byNobody
	case isForKueue(job) && (spec.RunsHere() || spec.RunsElsewhere()):
		return byWorkload
	case spec.RunsHere() && spec.T9kScheduler() != nil:
		return byPodGroup
	default:
		return byNobody
	}
}

// isForKueue reports whether Kueue admits the job.
func isForKueue(job client.Object) bool { return job.GetLabels()[kueuev1beta2.LabelQueueName] != "" }

// changeAdmission makes a change of the object through which the job is admitted.
func (r *Reconciler[J]) changeAdmission(ctx context.Context, job J, change view.Change) error {
	if isForKueue(job) {
		return r.workloads.Apply(ctx, job, change)
	}
	return r.podGroups.Apply(ctx, job, change)
}

// writePatience is how long a reconcile waits for the cache to show the writes of the previous reconcile of the job.
const writePatience = time.Second

// awaitWrites waits until the cache shows the pods that were written for the job, but at most for writePatience: the
// cache never shows a pod that lost its labels. Decisions are correct without the wait. The wait only saves
// repeated requests to the API server. A list with read-your-writes consistency is no alternative, because it waits for
// the writes of all jobs.
func (r *Reconciler[J]) awaitWrites(ctx context.Context, job types.NamespacedName) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	for _, name := range r.options.Memory.TakeWrites(job) {
		// Get waits until the cache shows the client's own writes of this pod.
		err := r.client.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: name}, &corev1.Pod{})
		if client.IgnoreNotFound(err) != nil {
			return
		}
	}
}

// planned returns the job as the input of plan.Decide.
func (r *Reconciler[J]) planned(job J) view.Job {
	return plannedJob(r.framework, r.gvk, r.options.Settings, job)
}

// plannedJob returns a job of a framework as the input of plan.Decide.
func plannedJob[J framework.Job](
	f framework.Framework[J], kind schema.GroupVersionKind, settings view.Settings, job J,
) view.Job {
	return view.Job{
		Kind:           kind,
		Namespace:      job.GetNamespace(),
		Name:           job.GetName(),
		UID:            job.GetUID(),
		Generation:     job.GetGeneration(),
		Deleting:       !job.GetDeletionTimestamp().IsZero(),
		Created:        job.GetCreationTimestamp().Time,
		Spec:           f.JobSpec(job),
		IsCopy:         kueue.IsCopy(job),
		Status:         *job.JobStatus(),
		Settings:       settings,
		MainContainers: f.MainContainers(),
		Wire: func(gang framework.Gang, member framework.Member, template *corev1.PodTemplateSpec) error {
			return f.Wire(job, gang, member, template)
		},
	}
}
