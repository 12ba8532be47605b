package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
)

// isRelabelled reports whether an object could not be created since the job has it already, and somebody changed the
// labels by which the job finds it. Neither the cache nor a list ever has such an object. Its name and its owner still
// say whose it is.
func (r *Reconciler[J]) isRelabelled(job J, err error) bool {
	notCached, ok := errors.AsType[*owned.NotCachedError](err)
	if !ok {
		return false
	}
	selector := labels.SelectorFromSet(plan.SelectorLabels(r.gvk.Kind, job.GetName()))
	labelled := labels.Set(notCached.Object.Labels)
	//mutant:containers: a pod that lost its labels is waited for => return false && selector.Matches(labelled)
	return !selector.Matches(labelled)
}

// errRelabelled is how the creation of a pod fails while the one before, whose labels somebody changed, is there.
var errRelabelled = errors.New("the labels of a pod of the job were changed, and it is being deleted")

// relabelledDelay is how long to wait before the creation is tried again. No event tells when the pod is gone.
const relabelledDelay = 5 * time.Second

// deleteRelabelled deletes a pod of the job whose labels somebody changed.
func (r *Reconciler[J]) deleteRelabelled(ctx context.Context, job J, name string) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: name}
	if err := r.apiReader.Get(ctx, key, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(pod, job) {
		return nil
	}
	if _, err := r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency); err != nil {
		return err
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}, client.DisableReadYourWritesConsistency}
	due, isLost := policy.ForceDeletion(pod, r.options.NodeLostDelay)
	isLost = isLost && !r.options.Clock.Now().Before(due)
	if isLost {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if pod.DeletionTimestamp != nil && !isLost {
		return nil
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, pod, options...))
}
