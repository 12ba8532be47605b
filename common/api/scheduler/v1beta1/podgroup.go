package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is pods that are scheduled together: all that are needed, or none. A pod belongs to the group that its label
// scheduler.tensorstack.dev/group-name names, in its own namespace, and must have schedulerName t9k-scheduler.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pgrp,categories=training
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queue`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="GroupScheduled")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="GroupScheduled")].reason`
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the group needs before any of its pods is scheduled.
	Spec PodGroupSpec `json:"spec"`

	// The most recently observed status of the group.
	//
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList contains a list of PodGroup.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}

// PodGroupSpec says what a group needs before any of its pods is scheduled.
//
// +kubebuilder:validation:XValidation:rule="self.queue == oldSelf.queue",message="queue cannot be changed",fieldPath=".queue"
type PodGroupSpec struct {
	// Least number of pods that must fit at once, from 0 to 2000. Less than the sum of the roles' minMember counts as that
	// sum. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	MinMember int32 `json:"minMember,omitempty"`

	// Roles of which a least number of pods must be among those that fit. The role of a pod is that of its label
	// scheduler.tensorstack.dev/role.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Roles []PodGroupRole `json:"roles,omitempty"`

	// Name of the Queue that the group is scheduled from. It cannot be changed. Defaults to "default".
	//
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// Priority of the group in its queue, from 0 to 100; the greater goes first. Once the group was admitted, a change
	// only changes whose pods are let through first where they are gated. Defaults to 10.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`

	// Names a topology that the pods should be close to each other in. No engine honours it yet: the condition
	// TopologyHonoured says so.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TopologyPolicy string `json:"topologyPolicy,omitempty"`
}

// PodGroupRole is pods of a group that have a part in common.
type PodGroupRole struct {
	// Name of the role.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Least number of pods of this role, from 0 to 2000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	MinMember int32 `json:"minMember"`
}

// PodGroupStatus is the observed state of a PodGroup.
type PodGroupStatus struct {
	// The generation of the spec that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Admitted, SufficientGroupMember and GroupScheduled, each with a reason, and MaxDurationExceeded once it is so.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// When as many pods as the group needs were on nodes for the first time. The maxDuration of its Queue counts from
	// then, also over restarts of the pods. Unset before, and if the Queue has none.
	//
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// Whether new pods of the group must have the scheduling gate scheduler.tensorstack.dev/queue, which is taken off them
	// when the queue has room for what the group needs, and confines them to the queue's nodes. Pods that the group can do
	// without may have it in any case: they are let through once the others are on nodes.
	//
	// +optional
	Gated bool `json:"gated,omitempty"`

	// The PriorityClass that new pods of the group must have. It stands for the priorities of the group and, where the
	// engine does not know queues, of its queue. Unset until the group is admitted.
	//
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Resources that the group's pods on nodes have requested and not given back.
	//
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// Number of pods in each phase.
	PodCounts `json:",inline"`
}

// PodCounts is the number of pods in each phase.
type PodCounts struct {
	// Number of pods that wait for a node or are starting.
	//
	// +optional
	Pending int32 `json:"pending,omitempty"`

	// Number of pods that run.
	//
	// +optional
	Running int32 `json:"running,omitempty"`

	// Number of pods that have succeeded.
	//
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// Number of pods that have failed.
	//
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// Number of pods whose node does not answer.
	//
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// Types of the conditions of a PodGroup.
const (
	// ConditionAdmitted is True while the group may have pods: its queue is there, open, and takes it. False says what is
	// in the way. Job controllers create no pod before it is True.
	ConditionAdmitted = "Admitted"
	// ConditionSufficientGroupMember is True while there are as many pods as the group needs, of every role.
	ConditionSufficientGroupMember = "SufficientGroupMember"
	// ConditionGroupScheduled is True while as many pods as the group needs are on nodes or have succeeded. False says
	// what they wait for.
	ConditionGroupScheduled = "GroupScheduled"
	// ConditionMaxDurationExceeded is True if the group of a job was on nodes for longer than spec.maxDuration of its
	// Queue. The job ends. What runs half a minute later is deleted. It is absent otherwise, and for groups that no job
	// controls.
	ConditionMaxDurationExceeded = "MaxDurationExceeded"
	// ConditionTopologyHonoured is False while topologyPolicy is set, which no engine honours yet. It is absent otherwise.
	ConditionTopologyHonoured = "TopologyHonoured"
	// ConditionRolesHonoured is False while the engine may place enough pods without those of every role. It is absent
	// otherwise.
	ConditionRolesHonoured = "RolesHonoured"
)

// Reasons of the conditions of a PodGroup.
const (
	// ReasonAdmitted: the queue takes the group.
	ReasonAdmitted = "Admitted"
	// ReasonQueueNotFound: there is no Queue of the name.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonQueueClosed: the Queue is closed.
	ReasonQueueClosed = "QueueClosed"
	// ReasonNamespaceNotSelected: the Queue does not take groups of this namespace.
	ReasonNamespaceNotSelected = "NamespaceNotSelected"
	// ReasonQuotaExceeded: the Queue has not as much left as the group needs.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonEngineNotReady: the engine lacks something that scheduling groups needs.
	ReasonEngineNotReady = "EngineNotReady"
	// ReasonEnoughPods: there are as many pods as needed.
	ReasonEnoughPods = "EnoughPods"
	// ReasonTooFewPods: pods that are needed do not exist yet.
	ReasonTooFewPods = "TooFewPods"
	// ReasonScheduled: the pods that are needed are on nodes.
	ReasonScheduled = "Scheduled"
	// ReasonScheduling: the scheduler has not said yet whether the pods fit.
	ReasonScheduling = "Scheduling"
	// ReasonUnschedulable: the pods that are needed do not fit at once.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPriorityClassMismatch: a pod does not have the PriorityClass of its group, so that it is not scheduled.
	ReasonPriorityClassMismatch = "PriorityClassMismatch"
	// ReasonMaxDurationExceeded: the group was on nodes for longer than its Queue allows.
	ReasonMaxDurationExceeded = "MaxDurationExceeded"
	// ReasonNotSupportedByEngine: the engine that was chosen at installation cannot do it.
	ReasonNotSupportedByEngine = "NotSupportedByEngine"
)
