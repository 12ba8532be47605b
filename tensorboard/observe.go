package tensorboard

import (
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// observe reads the objects of a TensorBoard. If its pod is ready, observe also asks the sidecar for its status.
func (r *reconciler) observe(ctx context.Context, tb *v1beta1.TensorBoard, wanted server) (observation, error) {
	seen := observation{Wanted: wanted}
	var pod corev1.Pod
	err := r.client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: objectName(tb.Name)}, &pod)
	if client.IgnoreNotFound(err) != nil {
		return seen, err
	}
	if err == nil && metav1.IsControlledBy(&pod, tb) {
		seen.Pod = &pod
	}
	if t9kScheduler(&tb.Spec) != nil {
		if seen.Group, err = observeGroup(ctx, r.reader, tb); err != nil {
			return seen, err
		}
	}
	if tb.Spec.Suspend {
		return seen, nil
	}
	if seen.Claims, err = r.claims.observe(ctx, tb, seen.Pod); err != nil {
		return seen, err
	}
	if seen.Pod != nil && seen.Pod.DeletionTimestamp.IsZero() && isReady(seen.Pod) {
		status, err := sidecar.Fetch(ctx, r.http, net.JoinHostPort(seen.Pod.Status.PodIP, strconv.Itoa(sidecar.HealthPort)))
		seen.Answer = &answer{Status: status, Err: err}
	}
	return seen, nil
}

// observeGroup reads the PodGroup of a TensorBoard from the API server, not from the cache. The CRD of PodGroups might
// not be installed, and a kind without a CRD cannot be watched.
func observeGroup(ctx context.Context, reader client.Reader, tb *v1beta1.TensorBoard) (groupView, error) {
	var group schedulerv1beta1.PodGroup
	err := reader.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: objectName(tb.Name)}, &group)
	switch {
	case err == nil:
		return groupView{Object: &group}, nil
	case meta.IsNoMatchError(err):
		return groupView{NotInstalled: true}, nil
	default:
		return groupView{}, client.IgnoreNotFound(err)
	}
}
