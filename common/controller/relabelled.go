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
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// isRelabelled reports whether err means that an object could not be created because the object already exists with
// other labels. The object belongs to the job, but somebody changed the labels by which the controller finds it.
// Neither the cache nor a list with the job's selector returns such an object.
func (r *Reconciler[J]) isRelabelled(job J, err error) bool {
	notCached, ok := errors.AsType[*owned.NotCachedError](err)
	if !ok {
		return false
	}
	selector := labels.SelectorFromSet(view.SelectorLabels(r.gvk.Kind, job.GetName()))
	labelled := labels.Set(notCached.Object.Labels)
	return !selector.Matches(labelled)
}

// errRelabelled is the error if a pod cannot be created yet, because an earlier pod of the same name still exists.
// Somebody changed the labels of the earlier pod, and the controller is deleting it.
var errRelabelled = errors.New("a pod of the job is being deleted because its labels were changed")

// relabelledDelay is how long to wait before the pod is created again. No event reports when the earlier pod is gone.
const relabelledDelay = 5 * time.Second

// deleteRelabelled deletes a pod of the job whose labels somebody changed.
func (r *Reconciler[J]) deleteRelabelled(ctx context.Context, job J, name string) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: name}
	if err := r.cluster.APIReader.Get(ctx, key, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(pod, job) {
		return nil
	}
	pods := map[string]*corev1.Pod{name: pod}
	if err := r.observeNodes(ctx, pods); err != nil {
		return err
	}
	pod = pods[name]
	if _, err := r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency); err != nil {
		return err
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}, client.DisableReadYourWritesConsistency}
	isLost := policy.IsDue(policy.ForceDeletion(pod, r.options.NodeLostDelay), r.options.Clock.Now())
	if isLost {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if pod.DeletionTimestamp != nil && !isLost {
		return nil
	}
	return client.IgnoreNotFound(r.cluster.Client.Delete(ctx, pod, options...))
}
