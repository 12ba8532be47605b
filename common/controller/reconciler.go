// Package controller runs the jobs of any framework. It observes the objects of a job, lets package plan decide, and
// executes the decision. It makes no decisions itself.
package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/fair"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
)

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
	cluster      Cluster
	framework    framework.Framework[J]
	gvk          schema.GroupVersionKind
	options      Options
	metrics      *jobMetrics
	podGroups    *dependents.PodGroups
	workloads    *dependents.Workloads
	tensorBoards *dependents.TensorBoards
	policies     network.Keeper
	// progressed has events for the jobs that ProgressChanged enqueues.
	progressed chan ctrlevent.GenericEvent
	// watchQuotas starts the watch of ResourceQuotas. It is called when a job waits for a ResourceQuota, and only the
	// first call has an effect. Nil means that ResourceQuotas are not watched.
	watchQuotas func() error
	// jobs reads the jobs to reconcile. It reads large jobs from the API server, and limits the memory for them.
	jobs large.Reader
	// pods limits the memory for the pods that are being created, in bytes.
	pods *fair.Pool
}

// New returns the reconciler of a framework's jobs. It returns an error if the client's scheme does not know the kind
// of the jobs, or if the metrics cannot be registered.
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
	reach := dependents.Cluster{
		Client: cluster.Client, APIReader: cluster.APIReader, Clock: options.Clock, Retry: options.DependentRetry,
	}
	return &Reconciler[J]{
		cluster:      cluster,
		framework:    f,
		gvk:          gvk,
		options:      options,
		metrics:      metrics,
		podGroups:    dependents.NewPodGroups(reach),
		workloads:    dependents.NewWorkloads(reach, &options.Memory.words),
		tensorBoards: dependents.NewTensorBoards(reach, &options.Memory.tensorBoards),
		policies:     network.Keeper{Client: cluster.Client, APIReader: cluster.APIReader},
		progressed:   make(chan ctrlevent.GenericEvent, progressEvents),
		jobs:         large.NewReader(cluster.APIReader, costOfLargeJob, largeJobMemory),
		pods:         fair.NewPool(podMemory),
	}, nil
}

// Reconcile moves one job closer to its spec. It returns an error if the reconcile must be retried with backoff.
func (r *Reconciler[J]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	job := r.framework.NewJob()
	isLarge, release, err := r.jobs.Get(ctx, r.cluster.Client, request.NamespacedName, job)
	if apierrors.IsNotFound(err) {
		if err := r.releaseStrays(ctx, request.NamespacedName, ""); err != nil {
			return reconcile.Result{}, err
		}
		r.options.Memory.forget(request.NamespacedName)
		r.forgetProgress(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return loop.Retry(err)
	}
	defer release()
	if err := r.releaseStrays(ctx, request.NamespacedName, job.GetUID()); err != nil {
		return reconcile.Result{}, err
	}
	now := r.options.Clock.Now()
	planned := plannedJob(r.framework, r.gvk, r.options.Settings, job)
	if isLarge {
		planned.RestSize = func() int { return sizeWithoutStatus(job) }
	}
	r.awaitWrites(ctx, request.NamespacedName)
	cycle := loop.Cycle[observation, decision]{
		Clock: r.options.Clock,
		Observe: func(ctx context.Context) (observation, error) {
			return r.observe(ctx, job, &planned, false, now)
		},
		Decide: func(seen observation) decision { return decideAll(planned, seen, now) },
		First: []loop.Step[observation, decision]{
			func(ctx context.Context, seen *observation, d decision) (bool, error) {
				if !d.NeedsLiveRead || r.onlyDelays(planned, d) {
					return false, nil
				}
				live, err := r.observe(ctx, job, &planned, true, now)
				live.isLive, live.cacheLacks = true, live.HasMoreThan(seen.Observation, planned.UID)
				*seen = live
				return true, err
			},
			func(ctx context.Context, seen *observation, d decision) (bool, error) {
				return seen.isLive && readOutputs(ctx, r.cluster.Outputs, seen.Pods, d.Unclear), nil
			},
		},
		Act: func(ctx context.Context, seen observation, d decision) (loop.Requeue, error) {
			requeue, err := r.execute(ctx, job, planned, d)
			if seen.cacheLacks { // if the missing object is deleted while the watch is broken, no event requeues the job
				requeue.By(r.after(view.CacheDelay))
			}
			return requeue, err
		},
	}
	return cycle.Run(ctx)
}

// after returns the current time plus a delay.
func (r *Reconciler[J]) after(delay time.Duration) time.Time { return r.options.Clock.Now().Add(delay) }
