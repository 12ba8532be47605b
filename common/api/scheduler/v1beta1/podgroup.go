package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is a group of pods that are scheduled together: either as many pods as the group needs, or none. The label
// scheduler.tensorstack.dev/group-name of a pod is the name of its PodGroup, which is in the same namespace. The pod
// must have the schedulerName t9k-scheduler.
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

	// The pods that the group needs before any of its pods is scheduled, and its queue and priority.
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

// PodGroupSpec describes the pods that a group needs before any of its pods is scheduled, and its queue and priority.
//
// +kubebuilder:validation:XValidation:rule="self.queue == oldSelf.queue",message="queue cannot be changed",fieldPath=".queue"
type PodGroupSpec struct {
	// Minimum number of pods that must fit at the same time, from 0 to 2000. If it is less than the sum of minMember of
	// the roles, that sum is used instead. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	MinMember int32 `json:"minMember,omitempty"`

	// Roles, each with a minimum number of pods that must fit. The role of a pod is the value of its label
	// scheduler.tensorstack.dev/role. At most 64 roles.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Roles []PodGroupRole `json:"roles,omitempty"`

	// Name of the Queue that the group is scheduled from, at most 253 characters. It cannot be changed. Defaults to
	// "default".
	//
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// Priority of the group within its queue, from 0 to 100. Groups of a higher priority are scheduled first. After the
	// group is admitted, a change only affects the order in which gated pods are released. Defaults to 10.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`

	// Name of the topology within which the pods should be placed close to each other. No engine supports topologies
	// yet, so the condition TopologyHonoured is False while this field is set. At most 253 characters.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TopologyPolicy string `json:"topologyPolicy,omitempty"`
}

// PodGroupRole describes the pods of a group that have the same role.
type PodGroupRole struct {
	// Name of the role, from 1 to 63 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Minimum number of pods of this role, from 0 to 2000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	MinMember int32 `json:"minMember"`
}

// PodGroupStatus is the observed state of a PodGroup.
type PodGroupStatus struct {
	// The generation of the spec that this status is based on.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The latest available observations of the group's state. The condition types Admitted, SufficientGroupMember and
	// GroupScheduled are always present. MaxDurationExceeded is present once it is True. Other types are present while the
	// engine that was chosen at installation lacks a feature that the group needs.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// When the first pod of the group was bound to a node. The time is recorded once as many pods as the group needs are
	// on nodes, and only while the Queue has a maxDuration. The maxDuration is relative to this time, even after the
	// pods are restarted. Unset until it is recorded.
	//
	// +optional
	ScheduledTime *metav1.Time `json:"scheduledTime,omitempty"`

	// Whether new pods of the group must have the scheduling gate scheduler.tensorstack.dev/queue. The gate is removed
	// when the quota of the queue has room for the pods that the group needs. At the same time, the pods are restricted
	// to the nodes of the queue. Pods that the group does not need can have the gate even if this field is false. Their
	// gates are removed after the needed pods are on nodes.
	//
	// +optional
	Gated bool `json:"gated,omitempty"`

	// Name of the PriorityClass that new pods of the group must have. It represents the priority of the group. If the
	// engine does not support queues, it also represents the priority of the queue. Unset until the group is admitted.
	//
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Sum of the resource requests of the group's pods that are on nodes and have not ended. At most 64 resources: if
	// there are more, those in the quota of the queue take precedence.
	//
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// Number of pods in each phase.
	PodCounts `json:",inline"`
}

// PodCounts is the number of pods in each phase.
type PodCounts struct {
	// Number of pods that wait for a node or whose containers are starting.
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

	// Number of pods whose node does not respond.
	//
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// Condition types of a PodGroup.
const (
	// ConditionAdmitted is True while the group can have pods: its queue exists, is open and selects its namespace, and
	// the engine can schedule the group. If it is False, the reason and the message explain what blocks the group. Job
	// controllers create no pods before it is True.
	ConditionAdmitted = "Admitted"
	// ConditionSufficientGroupMember is True while as many pods exist as the group needs, in total and of every role.
	ConditionSufficientGroupMember = "SufficientGroupMember"
	// ConditionGroupScheduled is True while as many pods as the group needs are on nodes or have succeeded. If it is
	// False, the reason and the message explain what the pods wait for.
	ConditionGroupScheduled = "GroupScheduled"
	// ConditionMaxDurationExceeded is True if the group of a job was on nodes for longer than spec.maxDuration of its
	// Queue. The job then fails, and pods that still run 30 seconds later are deleted. Otherwise the condition is
	// absent. It is always absent from groups that no job controls.
	ConditionMaxDurationExceeded = "MaxDurationExceeded"
	// ConditionTopologyHonoured is False while topologyPolicy is set, because no engine supports topologies yet.
	// Otherwise the condition is absent.
	ConditionTopologyHonoured = "TopologyHonoured"
	// ConditionRolesHonoured is False while the engine might place minMember pods without enough pods of every role.
	// Otherwise the condition is absent.
	ConditionRolesHonoured = "RolesHonoured"
)

// Reasons of the conditions of a PodGroup.
const (
	// ReasonAdmitted: the Queue admits the group.
	ReasonAdmitted = "Admitted"
	// ReasonQueueNotFound: the Queue in spec.queue does not exist.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonQueueClosed: the Queue is closed.
	ReasonQueueClosed = "QueueClosed"
	// ReasonNamespaceNotSelected: the namespaceSelector of the Queue does not select the namespace of the group.
	ReasonNamespaceNotSelected = "NamespaceNotSelected"
	// ReasonQuotaExceeded: the remaining quota of the Queue is less than the group needs.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonEngineNotReady: the engine lacks something that it needs to schedule groups, such as a feature gate.
	ReasonEngineNotReady = "EngineNotReady"
	// ReasonEarlierGroup: the engine still has an earlier group of the same name, because some pods of that group have
	// not ended.
	ReasonEarlierGroup = "EarlierGroup"
	// ReasonEnoughPods: as many pods exist as the group needs.
	ReasonEnoughPods = "EnoughPods"
	// ReasonTooFewPods: some of the pods that the group needs do not exist yet.
	ReasonTooFewPods = "TooFewPods"
	// ReasonScheduled: the pods that the group needs are on nodes.
	ReasonScheduled = "Scheduled"
	// ReasonScheduling: the scheduler has not reported yet whether the pods fit.
	ReasonScheduling = "Scheduling"
	// ReasonUnschedulable: the pods that the group needs do not fit on the nodes at the same time.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPriorityClassMismatch: a pod is not scheduled because it does not have the PriorityClass of its group.
	ReasonPriorityClassMismatch = "PriorityClassMismatch"
	// ReasonMaxDurationExceeded: the group was on nodes for longer than spec.maxDuration of its Queue.
	ReasonMaxDurationExceeded = "MaxDurationExceeded"
	// ReasonNotSupportedByEngine: the engine that was chosen at installation does not support this part of the spec.
	ReasonNotSupportedByEngine = "NotSupportedByEngine"
)
