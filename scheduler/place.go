package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"tensorstack.dev/jobs/common/affinity"
	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// ungated returns a copy of a pod without the gate, restricted to the nodes of its queue. The copy has the label of
// the queue, so that the pod counts against the quota until it ends, even if its group is deleted. The label is
// missing if the name of the queue is too long for a label. The annotation AnnotationReleased of the copy has the
// given value.
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

// requirementsOf converts a label selector to requirements of a node affinity. Their order is fixed.
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
