package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

func (r *Reconciler[J]) create(ctx context.Context, job J, planned *view.Job, d plan.Decision) error {
	if d.EnsureNetworkPolicy {
		policy := newNetworkPolicy(planned, r.options.NetworkPolicies, r.options.ProgressReader)
		if err := r.policies.Ensure(ctx, job, view.TheJob, policy); err != nil {
			return err
		}
	}
	if d.CreateService {
		err := r.createOwned(ctx, job, newService(planned))
		if r.isRelabelled(job, err) {
			r.options.Memory.noteService(job)
		} else if err != nil {
			return err
		}
	}
	if err := r.awaitRoom(ctx, job, d); err != nil || len(d.Creates) == 0 {
		return err
	}
	if err := r.createSecret(ctx, job, planned); err != nil {
		return err
	}
	inTheWay := func(err error) bool { // reports whether other pods can be created despite the error
		var refused *report.RefusedError
		return errors.Is(err, errRelabelled) ||
			errors.As(err, &refused) && refused.Reason == batchv1beta1.ReasonNameConflict
	}
	createPod := func(i int) error { return r.createPod(ctx, job, &d.Creates[i]) }
	if err := inParallel(r.options.MaxRequests, len(d.Creates), inTheWay, createPod); err != nil {
		return err
	}
	r.tell(ctx, job, d.Status, d.Status.Phase, []report.Event{{
		Type: corev1.EventTypeNormal, Reason: batchv1beta1.EventCreated, Action: "Create",
		Message: "created " + report.Count(len(d.Creates), "replica"), Facts: []any{"replicas", len(d.Creates)},
	}})
	return nil
}

// createPod builds a pod and creates it. It first waits while other pods that are being created use too much of the
// controller's memory.
func (r *Reconciler[J]) createPod(ctx context.Context, job J, c *view.Creation) error {
	if err := r.pods.Acquire(ctx, job.GetNamespace(), c.Size); err != nil {
		return fmt.Errorf("waiting for %d bytes of memory to create pod %s: %w", c.Size, c.Name, err)
	}
	defer r.pods.Release(job.GetNamespace(), c.Size)
	pod, err := c.Build()
	if err != nil {
		return err
	}
	setToken(pod, rand.Text)
	asked := maps.Clone(pod.Labels)
	err = r.blamed(ctx, pod, ofQuota(r.createOwned(ctx, job, pod)))
	if r.isRelabelled(job, err) {
		return cmp.Or(r.deleteRelabelled(ctx, job, pod.Name), errRelabelled)
	}
	if err != nil {
		return err
	}
	if err := r.refuseChanged(ctx, job, asked, pod); err != nil {
		return err
	}
	r.options.Memory.written.add(client.ObjectKeyFromObject(job), pod.Name)
	return nil
}

// setToken sets AnnotationProgressToken to a new token if the pod can report the progress of the training.
func setToken(pod *corev1.Pod, newToken func() string) {
	if _, reports := pod.Annotations[batchv1beta1.AnnotationProgressPort]; reports {
		pod.Annotations[batchv1beta1.AnnotationProgressToken] = newToken()
	}
}

// createOwned creates an object of the job. It never changes an existing object of the same name. If the job already
// has the object, the error is an *owned.NotCachedError. If the API server rejects the object, or if an object of
// this name belongs to another owner, the error is a *report.RefusedError.
func (r *Reconciler[J]) createOwned(ctx context.Context, job J, object client.Object) error {
	return owned.Create(ctx, r.cluster.Client, r.cluster.APIReader, job, view.TheJob, object)
}
