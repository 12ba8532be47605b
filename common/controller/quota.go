package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/quota"
	"tensorstack.dev/jobs/common/report"
)

// ofQuota returns err, the error of the creation of a pod. If a ResourceQuota is the cause, ofQuota sets the reason
// of the error to ReasonResourceQuotaExceeded.
func ofQuota(err error) error {
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		if _, ok := quota.ParseRefusal(err.Error()); ok {
			refused.Reason = batchv1beta1.ReasonResourceQuotaExceeded
		}
	}
	return err
}

// awaitRoom returns a *report.RefusedError if the job must wait for room in a ResourceQuota before it creates the
// pods that it needs together. Two kinds of jobs might have to wait: a job that the quota has rejected before, and a
// job that is younger than others that wait for the quota. For all other jobs, awaitRoom returns nil, and the API
// server checks the quota when the pods are created.
func (r *Reconciler[J]) awaitRoom(ctx context.Context, job J, d plan.Decision) error {
	key, waiting := client.ObjectKeyFromObject(job), &r.options.Memory.waiting
	last := ptr.Deref(meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionInitialized),
		metav1.Condition{})
	waits := last.Reason == batchv1beta1.ReasonResourceQuotaExceeded
	pods := d.Creates[:min(d.Together, len(d.Creates))]
	if len(pods) == 0 {
		if !waits || d.Status.Decided() { // a job stays in line while its earlier pods terminate, but not when it ends
			waiting.Leave(key)
		}
		return nil
	}
	refusal, wasRejected := quota.Refusal{}, false
	if waits {
		refusal, wasRejected = quota.ParseRefusal(last.Message)
	}
	names := []string{refusal.Quota}
	switch {
	case wasRejected:
	case !waits && status.IsCreateFailure(last.Reason):
		return nil // the job has another problem, and must not make others wait
	default:
		names = waiting.Quotas(key)
	}
	for _, name := range names {
		fits, newest, err := r.fits(ctx, job, pods, name, refusal)
		if err != nil {
			return err
		}
		if fits {
			continue
		}
		if r.watchQuotas != nil {
			if err := r.watchQuotas(); err != nil {
				return err
			}
		}
		message := last.Message // the message stays, so that the status does not change
		switch {
		case newest != "":
			message = newest
		case !waits:
			message = "other jobs of the namespace wait for room in the ResourceQuota " + name
		}
		return &report.RefusedError{Reason: batchv1beta1.ReasonResourceQuotaExceeded, Err: errors.New(message)}
	}
	return nil
}

// fits reports whether a ResourceQuota has room for the pods that the job needs together, in addition to the pods of
// older jobs that wait for the quota and fit. It also reports true if the quota does not exist or the controller has
// no permission to read it. The parameter refusal is the quota's last rejection of a pod of the job, or empty if
// there is none. If a dry run shows that the quota still rejects a pod of this type, but with other requests, newest
// is the message of the new rejection. Otherwise newest is empty.
func (r *Reconciler[J]) fits(
	ctx context.Context, job J, pods []view.Creation, name string, refusal quota.Refusal,
) (fits bool, newest string, err error) {
	key := types.NamespacedName{Namespace: job.GetNamespace(), Name: name}
	var limits corev1.ResourceQuota
	if err := r.cluster.APIReader.Get(ctx, key, &limits); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", fmt.Errorf("reading ResourceQuota %s: %w", name, err)
	}
	needs, newest, err := r.needsOf(ctx, pods, refusal, len(limits.Spec.Scopes) > 0 || limits.Spec.ScopeSelector != nil)
	if err != nil {
		return false, "", err
	}
	fits = r.options.Memory.waiting.Ask(name, client.ObjectKeyFromObject(job), job.GetCreationTimestamp().Time, needs,
		quota.Free(&limits), r.options.Clock.Now())
	return fits, newest, nil
}

// needsOf returns how much of each resource the pods use together, as a ResourceQuota counts it. It builds only the
// first and the last pod of each type, because the pods in between are like the last one. The parameter refusal is
// the last rejection of one of the pods by a quota. Admission by the API server can change the requests of a pod: for
// example, a LimitRange sets defaults. So needsOf makes a dry run with the last pod of the rejected pod's type, and
// counts the requests after admission for all pods of this type. If the ResourceQuota has scopes, only this type
// counts, because the quota might not apply to other types. If the quota rejects the pod of the dry run, but with
// other requests than in refusal, newest is the message of the new rejection. Otherwise newest is empty. An error
// describes a mistake in a template.
func (r *Reconciler[J]) needsOf(
	ctx context.Context, pods []view.Creation, refusal quota.Refusal, hasScopes bool,
) (needs corev1.ResourceList, newest string, err error) {
	needs = corev1.ResourceList{}
	for len(pods) > 0 {
		isOther := func(c view.Creation) bool { return c.Type != pods[0].Type }
		n := slices.IndexFunc(pods, isOther)
		if n < 0 {
			n = len(pods)
		}
		ofType := pods[:n]
		pods = pods[n:]
		isRejected := slices.ContainsFunc(ofType, func(c view.Creation) bool { return c.Name == refusal.Object })
		if hasScopes && !isRejected {
			continue
		}
		first, err := ofType[0].Build()
		if err != nil {
			return nil, "", err
		}
		last, err := ofType[n-1].Build()
		if err != nil {
			return nil, "", err
		}
		usage, usageOfLast := quota.UsageOf(first), quota.UsageOf(last)
		if isRejected {
			var changed corev1.ResourceList
			changed, newest = r.admittedUsage(ctx, last, refusal)
			for name, quantity := range changed {
				if was, ok := usageOfLast[name]; !ok || !was.Equal(quantity) {
					usage[name], usageOfLast[name] = quantity, quantity
				}
			}
		}
		quota.Add(needs, usage, 1)
		quota.Add(needs, usageOfLast, int64(n-1))
	}
	return needs, newest, nil
}

// admittedUsage returns the usage of a pod after admission by the API server. A dry run shows this usage, either in
// the resulting pod or in a rejection by a ResourceQuota. The parameter before is the last rejection of a pod of the
// same type. If the dry run fails in another way, admittedUsage returns the usage in that rejection. If the same
// quota rejects the pod, but with other requests, newest is the message of the new rejection. Otherwise newest is
// empty.
func (r *Reconciler[J]) admittedUsage(
	ctx context.Context, pod *corev1.Pod, before quota.Refusal,
) (usage corev1.ResourceList, newest string) {
	tried := pod.DeepCopy()
	// Without this option, the client would need the resourceVersion of the result, and the result of a dry run has
	// none.
	err := r.cluster.Client.Create(ctx, tried, client.DryRunAll, client.DisableReadYourWritesConsistency)
	if err == nil {
		return quota.UsageOf(tried), ""
	}
	refusal, ok := quota.ParseRefusal(err.Error())
	switch {
	case !ok: // for example, a webhook supports no dry run
		return before.Requests(), ""
	case refusal.Quota == before.Quota && refusal.Requested != before.Requested:
		newest = fmt.Sprintf("creating pod %s: %s", pod.Name, err)
	}
	return refusal.Requests(), newest
}

// quotaEvents requeues the jobs that wait for a ResourceQuota if the quota has changed and has room for them, or was
// deleted. Each job is requeued after a random delay. Without the delay, jobs of two kinds could start at the same
// time, because each job controller has its own line of waiting jobs. Each of these jobs could then get only a part
// of its pods.
func (r *Reconciler[J]) quotaEvents() handler.TypedEventHandler[*corev1.ResourceQuota, reconcile.Request] {
	const spread = 3 * time.Second
	requeue := func(limits *corev1.ResourceQuota, free corev1.ResourceList, q queue) {
		key := client.ObjectKeyFromObject(limits)
		for _, job := range r.options.Memory.waiting.Fitting(key, free, r.options.Clock.Now()) {
			q.AddAfter(reconcile.Request{NamespacedName: job}, rand.N(spread)) //nolint:gosec // it is no secret
		}
	}
	return handler.TypedFuncs[*corev1.ResourceQuota, reconcile.Request]{
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[*corev1.ResourceQuota], q queue) {
			requeue(e.ObjectNew, quota.Free(e.ObjectNew), q)
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[*corev1.ResourceQuota], q queue) {
			requeue(e.Object, nil, q) // the deleted quota limits no job anymore
		},
	}
}
