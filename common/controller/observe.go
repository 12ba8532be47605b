package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
)

// observation is a snapshot of the objects of a job.
type observation struct {
	view.Observation

	tensorBoard tensorboard.Seen
	// isLive reports whether the pods, and the PodGroup or the Workload, were read from the API server.
	isLive bool
	// cacheLacks reports whether the API server has an object that the cache lacks.
	cacheLacks bool
}

// observe reads the objects of the job from the cache. If live is true, it reads the pods, and the PodGroup or the
// Workload, from the API server instead.
func (r *Reconciler[J]) observe(
	ctx context.Context, job J, planned *view.Job, live bool, now time.Time,
) (observation, error) {
	var seen observation
	var reader client.Reader = r.cluster.Client
	var pods client.ListOption = client.MatchingFields{ownerIndex: string(job.GetUID())}
	if live {
		reader, pods = r.cluster.APIReader, client.MatchingLabels(view.SelectorLabels(r.gvk.Kind, job.GetName()))
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
	err := r.cluster.Client.Get(ctx, types.NamespacedName{Namespace: job.GetNamespace(), Name: job.GetName()}, &service)
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
	r.observeReadings(job, planned, &seen.Observation, now)
	if needsWorkload(job, planned.Spec) {
		seen.Admission = r.workloads.Observe(ctx, job, planned, live)
	}
	if needsPodGroup(job, planned.Spec) {
		seen.Admission = r.podGroups.Observe(ctx, job, live)
	}
	seen.StatusWaitsSince = r.options.Memory.WaitsSince(client.ObjectKeyFromObject(job))
	return seen, nil
}
