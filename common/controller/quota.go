package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/quota"
	"tensorstack.dev/jobs/common/report"
)

// ofQuota sets the reason of an error of the creation of a pod, if a ResourceQuota is the cause.
func ofQuota(err error) error {
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		if _, ok := quota.ParseRefusal(err.Error()); ok {
			refused.Reason = batchv1beta1.ReasonResourceQuotaExceeded
		}
	}
	return err
}

// awaitRoom returns a *report.RefusedError if the pods of a decision, which the job needs together, must not be created
// yet because of a ResourceQuota. This concerns a job that the quota has refused before, and a job that is younger than
// others that wait for the quota. Otherwise the API server decides.
func (r *Reconciler[J]) awaitRoom(ctx context.Context, job J, d plan.Decision) error {
	key := client.ObjectKeyFromObject(job)
	if d.Together == 0 {
		r.waiting.Leave(key)
		return nil
	}
	refusal, message := lastRefusal(job)
	names := []string{refusal.Quota}
	if refusal.Quota == "" {
		names = r.waiting.Quotas(key)
	}
	for _, name := range names {
		fits, err := r.fits(ctx, job, d, name, refusal)
		if err != nil {
			return err
		}
		//mutant:quota: a job creates its pods again without room for all => if !fits && name == "" {
		if !fits {
			if r.watchQuotas != nil {
				if err := r.watchQuotas(); err != nil {
					return err
				}
			}
			if message == "" {
				message = "older jobs of the namespace wait for room in the ResourceQuota " + name
			}
			return &report.RefusedError{Reason: batchv1beta1.ReasonResourceQuotaExceeded, Err: errors.New(message)}
		}
	}
	return nil
}

// lastRefusal returns how a ResourceQuota has refused a pod of the job, and the message that the status has about it.
// They are empty if the job does not wait for a ResourceQuota. Only the refusal is empty if the job waits because it is
// younger than others.
func lastRefusal(job framework.Job) (quota.Refusal, string) {
	c := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionInitialized)
	if c == nil || c.Reason != batchv1beta1.ReasonResourceQuotaExceeded {
		return quota.Refusal{}, ""
	}
	refusal, _ := quota.ParseRefusal(c.Message)
	return refusal, c.Message
}

// fits reports whether a ResourceQuota has room for the pods that the job needs together, beside those of older jobs
// that wait for it. refusal is the last refusal of a pod of the job, if any.
func (r *Reconciler[J]) fits(
	ctx context.Context, job J, d plan.Decision, name string, refusal quota.Refusal,
) (bool, error) {
	key := types.NamespacedName{Namespace: job.GetNamespace(), Name: name}
	var limits corev1.ResourceQuota
	if err := r.apiReader.Get(ctx, key, &limits); err != nil {
		return true, client.IgnoreNotFound(fmt.Errorf("reading ResourceQuota %s: %w", name, err))
	}
	needs := corev1.ResourceList{}
	refused := slices.IndexFunc(d.Creates, func(c plan.Creation) bool { return c.Name == refusal.Object })
	for _, c := range d.Creates[:d.Together] {
		isLikeRefused := refused >= 0 && c.Type == d.Creates[refused].Type
		if hasScopes(limits.Spec) && !isLikeRefused {
			continue // the quota might not apply to this pod
		}
		pod, err := c.Build()
		if err != nil {
			return false, err
		}
		var least corev1.ResourceList
		if isLikeRefused {
			least = refusal.Requests()
		}
		quota.Add(needs, quota.UsageOf(pod), least)
	}
	return r.waiting.Ask(key, client.ObjectKeyFromObject(job), job.GetCreationTimestamp().Time, needs,
		quota.Free(&limits), r.options.Clock.Now()), nil
}

// jobsThatFit returns the jobs that waited for a ResourceQuota and fit now.
func (r *Reconciler[J]) jobsThatFit(_ context.Context, limits *corev1.ResourceQuota) []reconcile.Request {
	var requests []reconcile.Request
	for _, job := range r.waiting.Fitting(client.ObjectKeyFromObject(limits), quota.Free(limits), r.options.Clock.Now()) {
		requests = append(requests, reconcile.Request{NamespacedName: job})
	}
	return requests
}

// hasScopes reports whether a ResourceQuota applies only to some pods.
func hasScopes(spec corev1.ResourceQuotaSpec) bool {
	return len(spec.Scopes) > 0 || spec.ScopeSelector != nil
}
