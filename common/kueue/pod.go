package kueue

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// PodInfo contains the metadata and the fields that are added to the pods of an admitted PodSet.
type PodInfo struct {
	labels, annotations, nodeSelector map[string]string
	tolerations                       []corev1.Toleration
	gates                             []corev1.PodSchedulingGate
}

// PodInfoOf returns the additions to the pods of a PodSet: the nodes and tolerations of its flavors, the updates of
// admission checks, and the metadata and gates that Kueue needs to assign topology domains. The argument flavors must
// have the spec of each ResourceFlavor that is assigned to the PodSet, by the name of the ResourceFlavor.
func PodInfoOf(
	workload *kueuev1beta2.Workload, podSet string, flavors map[string]kueuev1beta2.ResourceFlavorSpec,
) PodInfo {
	info := PodInfo{
		labels: map[string]string{
			kueuev1beta2.LabelPodSet: podSet, batchv1beta1.LabelAdmittedBy: string(workload.UID),
		},
		annotations:  map[string]string{kueuev1beta2.AnnotationWorkload: workload.Name},
		nodeSelector: map[string]string{},
	}
	info.label(labelLocalQueue, workload.Spec.QueueName)
	if workload.Status.Admission != nil {
		info.label(labelClusterQueue, workload.Status.Admission.ClusterQueue)
		for _, assignment := range workload.Status.Admission.PodSetAssignments {
			if assignment.Name == podSet {
				info.assign(assignment, flavors)
			}
		}
	}
	for _, check := range workload.Status.AdmissionChecks {
		for _, update := range check.PodSetUpdates {
			if update.Name == podSet {
				maps.Copy(info.labels, update.Labels)
				maps.Copy(info.annotations, update.Annotations)
				maps.Copy(info.nodeSelector, update.NodeSelector)
				info.tolerations = append(info.tolerations, update.Tolerations...)
			}
		}
	}
	return info
}

// label adds a label with the name of a queue, unless the name is too long for a label.
func (i *PodInfo) label(key, queue string) {
	if len(validation.IsValidLabelValue(queue)) == 0 {
		i.labels[key] = queue
	}
}

func (i *PodInfo) assign(
	assignment kueuev1beta2.PodSetAssignment, flavors map[string]kueuev1beta2.ResourceFlavorSpec,
) {
	names := slices.Compact(slices.Sorted(maps.Values(assignment.Flavors)))
	for _, name := range names {
		maps.Copy(i.nodeSelector, flavors[name].NodeLabels)
		i.tolerations = append(i.tolerations, flavors[name].Tolerations...)
	}
	if assignment.TopologyAssignment != nil {
		i.gates = []corev1.PodSchedulingGate{{Name: kueuev1beta2.TopologyGate}}
	}
}

// Decorate adds the metadata and the fields of a PodInfo to a pod, so that the pod runs where its PodSet is admitted.
func (i PodInfo) Decorate(pod *corev1.Pod) {
	pod.Labels = labels.Merge(pod.Labels, i.labels)
	if len(i.gates) > 0 && !requestsTopology(pod.Annotations) {
		pod.Annotations = labels.Merge(pod.Annotations, map[string]string{kueuev1beta2.AnnotationUnconstrained: "true"})
	}
	pod.Annotations = labels.Merge(pod.Annotations, i.annotations)
	pod.Spec.NodeSelector = labels.Merge(pod.Spec.NodeSelector, i.nodeSelector)
	pod.Spec.Tolerations = slices.Concat(pod.Spec.Tolerations, i.tolerations)
	pod.Spec.SchedulingGates = slices.Concat(pod.Spec.SchedulingGates, i.gates)
}
