package v1beta1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Queue is a share of the cluster that PodGroups are scheduled from.
//
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

	// Whom the queue serves, with how much, and before whom.
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

// QueueSpec says whom a queue serves, with how much, and before whom. Everything can be changed at any time.
type QueueSpec struct {
	// The most that the queue's pods may have allocated together. Unset, or a resource that is not named: no limit.
	//
	// +optional
	Quota *QueueQuota `json:"quota,omitempty"`

	// Priority of the queue, from 0 to 100: a queue of a greater one is served first, and takes resources back from
	// preemptible queues of a smaller one. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority int32 `json:"priority,omitempty"`

	// Whether queues of a greater priority may take resources back from this one. Defaults to true.
	//
	// +optional
	// +kubebuilder:default=true
	Preemptible *bool `json:"preemptible,omitempty"`

	// Set true to allocate nothing more from this queue. What runs goes on. Defaults to false.
	//
	// +optional
	Closed bool `json:"closed,omitempty"`

	// How long a job of this queue may be on nodes, from when its PodGroup is scheduled for the first time, such as
	// 15d or 1h20m15s: numbers with the units y (365 days), w, d, h, m, s and ms, each at most once and in this
	// order. The job then fails with reason MaxDurationExceeded. Of a PodGroup that no job controls, each pod may exist
	// for so long, after which it is deleted. Unset: for ever.
	//
	// +optional
	MaxDuration *Duration `json:"maxDuration,omitempty"`

	// Nodes that the queue's pods may run on, by their labels: at most 64 matchLabels and 64 matchExpressions.
	// Unset: all.
	//
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Namespaces whose PodGroups the queue takes, by their labels: at most 64 matchLabels and 64 matchExpressions.
	// Unset: none. Empty ({}): all.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Name of a profile of resource shapes, for user interfaces to offer. The scheduler does nothing with it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceShapeProfile string `json:"resourceShapeProfile,omitempty"`
}

// QueueQuota is the most that a queue may have allocated.
type QueueQuota struct {
	// The sum of the requests of the queue's pods that are on nodes, for at most 256 resources.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// Duration is a length of time, such as 15d or 1h20m15s.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,4}y)?([0-9]{1,4}w)?([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$') && self.matches('[1-9]')",message="must be a length of time such as 15d or 1h20m15s, greater than 0: numbers with the units y, w, d, h, m, s and ms, in this order"
type Duration string

// QueueStatus is the observed state of a Queue.
type QueueStatus struct {
	// The generation of the spec that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Active, and what the engine that was chosen at installation cannot do of the spec.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Resources that the queue's pods on nodes have requested and not given back.
	//
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// The queue's PodGroups.
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

// Types of the conditions of a Queue.
const (
	// ConditionActive is True while the queue allocates: it is open.
	ConditionActive = "Active"
	// ConditionPriorityHonoured is False while the queue has a priority that the engine does not honour in full. It is
	// absent otherwise.
	ConditionPriorityHonoured = "PriorityHonoured"
	// ConditionFairShareHonoured is False while the engine does not order queues of the same priority by their shares. It
	// is absent otherwise.
	ConditionFairShareHonoured = "FairShareHonoured"
	// ConditionClosedHonoured is False while the queue is closed and the engine may still place pods that were let through
	// before. It is absent otherwise.
	ConditionClosedHonoured = "ClosedHonoured"
)

// Reasons of the conditions of a Queue. ReasonQueueClosed and ReasonNotSupportedByEngine come to them.
const (
	// ReasonOpen: the queue allocates.
	ReasonOpen = "Open"
)

// Reasons of the events of pods that are scheduled from a queue.
const (
	// EventMaxDuration: the pod was deleted, since it existed for longer than spec.maxDuration of its Queue.
	EventMaxDuration = "MaxDuration"
)

// Length returns the length of time, 0 if it is malformed, which the API server refuses.
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
