package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload requests the admission of the pods of a job.
//
// +kubebuilder:object:root=true
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WorkloadSpec   `json:"spec,omitempty"`
	Status WorkloadStatus `json:"status,omitempty"`
}

// WorkloadList contains a list of Workload.
//
// +kubebuilder:object:root=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}

// WorkloadSpec is the request of a job. Kueue refuses changes of PodSets while quota is reserved.
type WorkloadSpec struct {
	PodSets                     []PodSet          `json:"podSets,omitempty"`
	QueueName                   string            `json:"queueName,omitempty"`
	PriorityClassRef            *PriorityClassRef `json:"priorityClassRef,omitempty"`
	Priority                    *int32            `json:"priority,omitempty"`
	Active                      *bool             `json:"active,omitempty"`
	MaximumExecutionTimeSeconds *int32            `json:"maximumExecutionTimeSeconds,omitempty"`
}

// PodSet is a number of equal pods. With MinCount, Kueue can admit fewer pods than Count. Kueue supports MinCount for
// at most one PodSet of a Workload.
type PodSet struct {
	Name            string                 `json:"name,omitempty"`
	Template        corev1.PodTemplateSpec `json:"template"`
	Count           int32                  `json:"count"`
	MinCount        *int32                 `json:"minCount,omitempty"`
	TopologyRequest *TopologyRequest       `json:"topologyRequest,omitempty"`
}

// TopologyRequest is the topology that a PodSet requests. At most one of the first three fields is set.
type TopologyRequest struct {
	Required      *string `json:"required,omitempty"`
	Preferred     *string `json:"preferred,omitempty"`
	Unconstrained *bool   `json:"unconstrained,omitempty"`
	PodIndexLabel *string `json:"podIndexLabel,omitempty"`
	GroupName     *string `json:"podSetGroupName,omitempty"`
	SliceTopology *string `json:"podSetSliceRequiredTopology,omitempty"`
	SliceSize     *int32  `json:"podSetSliceSize,omitempty"`
}

// PriorityClassRef is the class that the priority comes from: a WorkloadPriorityClass or a PriorityClass.
type PriorityClassRef struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"`
}

// WorkloadStatus is the part of the status that the job controllers read and write.
type WorkloadStatus struct {
	Conditions      []metav1.Condition    `json:"conditions,omitempty"`
	Admission       *Admission            `json:"admission,omitempty"`
	AdmissionChecks []AdmissionCheckState `json:"admissionChecks,omitempty"`
	ReclaimablePods []ReclaimablePod      `json:"reclaimablePods,omitempty"`
	// AccumulatedPastExecutionTimeSeconds is how long the Workload was admitted in total before its last eviction. This
	// time counts towards MaximumExecutionTimeSeconds.
	AccumulatedPastExecutionTimeSeconds *int32 `json:"accumulatedPastExecutionTimeSeconds,omitempty"`
}

// Admission has the ClusterQueue that admits a Workload, and the result for each PodSet.
type Admission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments"`
}

// PodSetAssignment has the flavors and the number of the admitted pods of a PodSet.
type PodSetAssignment struct {
	Name string `json:"name"`
	// Flavors are the names of ResourceFlavors, by resource.
	Flavors map[corev1.ResourceName]string `json:"flavors,omitempty"`
	// Count is how many pods are admitted.
	Count *int32 `json:"count,omitempty"`
	// TopologyAssignment is set if Kueue assigns a topology domain to each pod. The job controllers do not read it.
	TopologyAssignment *TopologyAssignment `json:"topologyAssignment,omitempty"`
}

// TopologyAssignment is the assignment of topology domains to the pods of a PodSet.
type TopologyAssignment struct {
	Levels []string `json:"levels,omitempty"`
}

// AdmissionCheckState is the state of a check that an admission needs.
type AdmissionCheckState struct {
	Name          string         `json:"name,omitempty"`
	State         string         `json:"state,omitempty"`
	Message       string         `json:"message"`
	PodSetUpdates []PodSetUpdate `json:"podSetUpdates,omitempty"`
}

// PodSetUpdate has the fields that an admission check adds to the pods of a PodSet.
type PodSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Annotations  map[string]string   `json:"annotations,omitempty"`
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// ReclaimablePod counts those pods of a PodSet that need no resources anymore.
type ReclaimablePod struct {
	Name  string `json:"name"`
	Count int32  `json:"count"`
}

// ResourceFlavor describes the nodes that provide one variant of a resource.
//
// +kubebuilder:object:root=true
type ResourceFlavor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceFlavorSpec `json:"spec,omitempty"`
}

// ResourceFlavorSpec is the part of the spec that the job controllers read.
type ResourceFlavorSpec struct {
	NodeLabels  map[string]string   `json:"nodeLabels,omitempty"`
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// WorkloadPriorityClass is a priority of Workloads.
//
// +kubebuilder:object:root=true
type WorkloadPriorityClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Value int32 `json:"value"`
}
