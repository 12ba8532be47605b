package v1beta1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Queue is a share of the cluster that PodGroups are scheduled from. The name of a new Queue has at most 63 characters.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="metadata.name must have at most 63 characters, since the name is a label of the pods of the Queue",fieldPath=".metadata"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=training
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Closed",type=boolean,JSONPath=`.spec.closed`
// +kubebuilder:printcolumn:name="Groups",type=integer,JSONPath=`.status.podGroups.total`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pods.pending`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.pods.running`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The namespaces, quota, nodes and priority of the queue.
	//
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`

	// The most recently observed status of the queue.
	//
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueList contains a list of Queue.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}

// QueueSpec is the desired state of a Queue. Every field can be changed at any time.
type QueueSpec struct {
	// The maximum amount of resources that the pods of the queue can have allocated together. If unset, there is no
	// limit. A resource that is not listed is not limited. <DeviceClass>.deviceclass.resource.k8s.io/devices is the
	// number of devices of a DeviceClass in ResourceClaims, as in a ResourceQuota.
	//
	// +optional
	Quota *QueueQuota `json:"quota,omitempty"`

	// Priority of the queue, from 0 to 100. Queues of a higher priority are served first, and reclaim resources from
	// preemptible queues of a lower priority. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority int32 `json:"priority,omitempty"`

	// Whether queues of a higher priority can reclaim resources from this queue. Defaults to true.
	//
	// +optional
	// +kubebuilder:default=true
	Preemptible *bool `json:"preemptible,omitempty"`

	// Set to true to stop the allocation of resources from this queue. Pods that run are not affected. Defaults to false.
	//
	// +optional
	Closed bool `json:"closed,omitempty"`

	// How long a job of this queue can be on nodes, relative to the time when its PodGroup was scheduled for the first
	// time. After that, the job fails with the reason MaxDurationExceeded. A pod of a PodGroup that no job controls is
	// deleted when the pod has existed for this long. The format is a sequence of numbers with the units y (365 days),
	// w, d, h, m, s and ms, each at most once and in this order, such as 15d or 1h20m15s. If unset, there is no limit.
	//
	// +optional
	MaxDuration *Duration `json:"maxDuration,omitempty"`

	// Label selector for the nodes that the pods of the queue can run on. At most 64 matchLabels and 64 matchExpressions.
	// If unset, the pods can run on all nodes.
	//
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Label selector for the namespaces whose PodGroups the queue admits. At most 64 matchLabels and 64 matchExpressions.
	// If unset, the queue admits no PodGroups. If empty ({}), the queue admits PodGroups of all namespaces.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Name of a profile of resource shapes that user interfaces can offer. The scheduler ignores it. At most 253
	// characters.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceShapeProfile string `json:"resourceShapeProfile,omitempty"`
}

// QueueQuota is the maximum amount of resources that a queue can have allocated.
type QueueQuota struct {
	// Limits of the sum of the resource requests of the queue's pods that are on nodes. At most 256 resources.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// Duration is a length of time, such as 15d or 1h20m15s. At most 64 characters.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,4}y)?([0-9]{1,4}w)?([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$') && self.matches('[1-9]')",message="must be a duration greater than 0, such as 15d or 1h20m15s: numbers with the units y, w, d, h, m, s and ms, in this order"
type Duration string

// QueueStatus is the observed state of a Queue.
type QueueStatus struct {
	// The generation of the spec that this status is based on.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The latest available observations of the queue's state. The condition type Active is always present. Other types
	// are present while the engine that was chosen at installation lacks a feature that the queue needs.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Sum of the resource requests of the queue's pods that are on nodes and have not ended. At most 64 resources: if
	// there are more, those in the quota take precedence.
	//
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// The number of PodGroups of the queue.
	//
	// +optional
	PodGroups QueuePodGroups `json:"podGroups,omitempty"`

	// Number of the queue's pods in each phase.
	//
	// +optional
	Pods PodCounts `json:"pods,omitempty"`
}

// QueuePodGroups counts the PodGroups of a queue.
type QueuePodGroups struct {
	// Number of PodGroups.
	//
	// +optional
	Total int32 `json:"total,omitempty"`
}

// Condition types of a Queue.
const (
	// ConditionActive is True while the queue is open and allocates resources.
	ConditionActive = "Active"
	// ConditionPriorityHonoured is False while the queue has a priority that the engine does not fully support.
	// Otherwise the condition is absent.
	ConditionPriorityHonoured = "PriorityHonoured"
	// ConditionFairShareHonoured is False while the engine does not order queues of the same priority by the fraction of
	// their quota, or of the cluster, that they use. Otherwise the condition is absent.
	ConditionFairShareHonoured = "FairShareHonoured"
	// ConditionClosedHonoured is False while the queue is closed, but the engine might still place pods that were released
	// before. It is absent otherwise.
	ConditionClosedHonoured = "ClosedHonoured"
)

// Reasons of the conditions of a Queue. ReasonQueueClosed and ReasonNotSupportedByEngine can occur, too.
const (
	// ReasonOpen: the queue is open and allocates resources.
	ReasonOpen = "Open"
)

// Reasons of the events of pods that are scheduled from a queue.
const (
	// EventMaxDuration: the pod was deleted because spec.maxDuration of its Queue was exceeded.
	EventMaxDuration = "MaxDuration"
)

// Length returns the duration as a time.Duration. It returns 0 if the value is not a sequence of numbers with known
// units. The API server does not accept such a value.
func (d Duration) Length() time.Duration {
	units := map[string]time.Duration{
		"y": 365 * 24 * time.Hour, "w": 7 * 24 * time.Hour, "d": 24 * time.Hour,
		"h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond,
	}
	var length time.Duration
	for rest := string(d); rest != ""; {
		digits, letters := 0, 0
		number := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			number = number*10 + int(rest[digits]-'0')
			digits++
		}
		for digits+letters < len(rest) && rest[digits+letters] >= 'a' && rest[digits+letters] <= 'z' {
			letters++
		}
		unit, known := units[rest[digits:digits+letters]]
		if digits == 0 || !known {
			return 0
		}
		length += time.Duration(number) * unit
		rest = rest[digits+letters:]
	}
	return length
}
