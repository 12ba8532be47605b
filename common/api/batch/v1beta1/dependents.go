package v1beta1

import corev1 "k8s.io/api/core/v1"

// DependentStatus is the observed state of an object that the job owns.
type DependentStatus struct {
	// Name that identifies this dependent among the dependents of the job. It is not the name of the object.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Reference to the object.
	//
	// +optional
	Dependent *corev1.ObjectReference `json:"dependent,omitempty"`

	// Whether the object is ready.
	//
	// +optional
	Ready bool `json:"ready"`

	// The reason for this status, as one word in CamelCase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// The last action of the controller on the object: Create, Update or Delete. Empty if there was none yet.
	//
	// +optional
	Action string `json:"action,omitempty"`

	// A message with details about this status.
	//
	// +optional
	Note string `json:"note,omitempty"`

	// Type of this status: Normal or Warning.
	//
	// +optional
	Type string `json:"type,omitempty"`
}

// Values of DependentStatus.Action.
const (
	// ActionCreate: the controller created the object, or tried to.
	ActionCreate = "Create"
	// ActionUpdate: the controller changed the object, or tried to.
	ActionUpdate = "Update"
	// ActionDelete: the controller deleted the object, or tried to.
	ActionDelete = "Delete"
)
