package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/affinity"
	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/control"
)

// release removes the gate of a pod and restricts the pod to the nodes of its queue. Both changes must be in the same
// write, because the API server allows changes of the node affinity only while a pod is gated.
func (r *reconciler) release(ctx context.Context, queue *v1beta1.Queue, pod *corev1.Pod) error {
	value := releasedValue(pod)
	if pod.Annotations[annotationAbridged] != "" {
		full := &corev1.Pod{}
		if err := r.reader.Get(ctx, client.ObjectKeyFromObject(pod), full); err != nil {
			return client.IgnoreNotFound(err)
		}
		if full.ResourceVersion != pod.ResourceVersion {
			return nil // the watch event of the change requeues the queue
		}
		pod = full
	}
	ungated := ungated(pod, queue, value)
	err := control.Patch(ctx, r.client, pod, ungated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.writes.note(queue.Name, &corev1.Pod{}, pod, ungated)
	return nil
}

// ungated returns a copy of a pod without the gate, restricted to the nodes of its queue. The copy has the label of the
// queue, so that it counts against the quota until it ends, even if its group is deleted. The value is that of
// AnnotationReleased.
func ungated(pod *corev1.Pod, queue *v1beta1.Queue, value string) *corev1.Pod {
	ungated := pod.DeepCopy()
	ungated.Spec.SchedulingGates = slices.DeleteFunc(ungated.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == v1beta1.QueueGate })
	metav1.SetMetaDataAnnotation(&ungated.ObjectMeta, v1beta1.AnnotationReleased, value)
	if len(validation.IsValidLabelValue(queue.Name)) == 0 {
		metav1.SetMetaDataLabel(&ungated.ObjectMeta, v1beta1.LabelQueue, queue.Name)
	}
	affinity.Restrict(&ungated.Spec, corev1.NodeSelectorTerm{MatchExpressions: requirementsOf(queue.Spec.NodeSelector)})
	return ungated
}

// requirementsOf returns the requirements of a label selector, for a node affinity. Their order is fixed.
func requirementsOf(selector *metav1.LabelSelector) []corev1.NodeSelectorRequirement {
	if selector == nil {
		return nil
	}
	var all []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{selector.MatchLabels[key]},
		})
	}
	for _, e := range selector.MatchExpressions {
		// The operators of label selectors are a subset of the operators of node selectors.
		all = append(all, corev1.NodeSelectorRequirement{
			Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	return all
}
