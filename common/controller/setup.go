package controller

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/phases"
)

// ownerIndex is the index of pods by the UID of their controller, such as a job.
const ownerIndex = "batch.tensorstack.dev/owner"

// SetupWithManager registers the reconciler with the manager. It returns an error if the manager does not accept it, or
// if the metrics cannot be registered.
func (r *Reconciler[J]) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	cached := phases.Objects{Reader: mgr.GetCache(), Scheme: mgr.GetScheme(), Kind: r.gvk, Elected: mgr.Elected()}
	for _, collector := range []prometheus.Collector{newJobCollector(cached), newProgressCollector(cached)} {
		if err := r.cluster.Metrics.Register(collector); err != nil {
			return err
		}
	}
	// Fill the caches before this process is elected, so that a new leader can start immediately. By default a
	// controller starts its informers only after the election. The option EnableWarmup of a controller is no
	// alternative: it also fills the work queue, and no worker handles the queue before the election.
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
			predicate.GenerationChangedPredicate{}, queueChanges, r.copiedChanges(), r.deviceFailures(), r.waits()))).
		Watches(&corev1.Pod{}, r.podEvents()).
		Owns(&corev1.Service{}, builder.WithPredicates(deletions)).
		WatchesRawSource(source.Channel(r.progressed, &handler.EnqueueRequestForObject{})).
		WithOptions(loop.Options(r.options.Workers))
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
	}
	r.watchQuotas = sync.OnceValue(func() error {
		return c.Watch(source.Kind(mgr.GetCache(), &corev1.ResourceQuota{}, r.quotaEvents()))
	})
	r.podGroups.Watch(mgr, jobs)
	r.workloads.Watch(mgr, jobs)
	r.tensorBoards.Watch(mgr, jobs)
	return nil
}

func ownerUID(object client.Object) []string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}
