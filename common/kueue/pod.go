package kueue

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// Labels of a pod that name the queues of its Workload. Users need them for metrics and costs.
const (
	labelLocalQueue   = "kueue.x-k8s.io/local-queue-name"
	labelClusterQueue = "kueue.x-k8s.io/cluster-queue-name"
)

// Decorate adds the metadata and the fields to a pod that it needs as a member of an admitted PodSet: the nodes and
// tolerations of the flavors, the updates of admission checks, and the metadata and gates that Kueue needs to assign
// topology domains. The argument flavors must have the spec of each ResourceFlavor that is assigned to the PodSet, by
// the name of the ResourceFlavor.
func Decorate(
	pod *corev1.Pod, workload *kueuev1beta2.Workload, podSet string, flavors map[string]kueuev1beta2.ResourceFlavorSpec,
) {
	metav1.SetMetaDataLabel(&pod.ObjectMeta, kueuev1beta2.LabelPodSet, podSet)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1beta1.LabelAdmittedBy, string(workload.UID))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kueuev1beta2.AnnotationWorkload, workload.Name)
	label(pod, labelLocalQueue, workload.Spec.QueueName)
	if workload.Status.Admission != nil {
		label(pod, labelClusterQueue, workload.Status.Admission.ClusterQueue)
		for _, assignment := range workload.Status.Admission.PodSetAssignments {
			if assignment.Name == podSet {
				assign(pod, assignment, flavors)
			}
		}
	}
	for _, check := range workload.Status.AdmissionChecks {
		for _, update := range check.PodSetUpdates {
			if update.Name == podSet {
				pod.Labels = labels.Merge(pod.Labels, update.Labels)
				pod.Annotations = labels.Merge(pod.Annotations, update.Annotations)
				pod.Spec.NodeSelector = labels.Merge(pod.Spec.NodeSelector, update.NodeSelector)
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, update.Tolerations...)
			}
		}
	}
}

// label adds a label with the name of a queue, unless the name is too long for a label.
func label(pod *corev1.Pod, key, queue string) {
	if len(validation.IsValidLabelValue(queue)) == 0 {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, queue)
	}
}

// assign restricts a pod to the nodes of its flavors. If Kueue assigns topology domains, the pod waits for its domain.
// Call assign before the updates of admission checks are added, because only the template can request a topology.
func assign(
	pod *corev1.Pod, assignment kueuev1beta2.PodSetAssignment, flavors map[string]kueuev1beta2.ResourceFlavorSpec,
) {
	for _, name := range slices.Compact(slices.Sorted(maps.Values(assignment.Flavors))) {
		pod.Spec.NodeSelector = labels.Merge(pod.Spec.NodeSelector, flavors[name].NodeLabels)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, flavors[name].Tolerations...)
	}
	if assignment.TopologyAssignment == nil {
		return
	}
	gate := corev1.PodSchedulingGate{Name: kueuev1beta2.TopologyGate}
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, gate)
	if !requestsTopology(pod.Annotations) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kueuev1beta2.AnnotationUnconstrained, "true")
	}
}
