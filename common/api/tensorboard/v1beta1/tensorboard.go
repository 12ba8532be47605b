package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TensorBoard shows training logs in a browser. It runs in a pod of its own, `<name>-tb`, behind a Service of that
// name, and is suspended when nobody has looked at it for long.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tb,categories=training
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Idle",type=string,JSONPath=`.status.conditions[?(@.type=="Idle")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 60",message="metadata.name must be a DNS-1035 label of at most 60 characters, since the Service is named <name>-tb: lower case letters, digits and '-', beginning with a letter and ending with a letter or digit"
type TensorBoard struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to show and how to run it. Everything but scheduler can be changed at any time; TensorBoard starts anew with
	// it.
	Spec TensorBoardSpec `json:"spec"`

	// The most recently observed status of the TensorBoard.
	//
	// +optional
	Status TensorBoardStatus `json:"status,omitempty"`
}

// TensorBoardList contains a list of TensorBoard.
//
// +kubebuilder:object:root=true
type TensorBoardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TensorBoard `json:"items"`
}

// TensorBoardPhase is a simple, high-level summary of where a TensorBoard is in its life.
//
// +kubebuilder:validation:Enum=Pending;Running;Suspended;Failed
type TensorBoardPhase string

// Phases of a TensorBoard. None is final.
const (
	// TensorBoardPending: TensorBoard is starting, or waits for what the condition Ready says.
	TensorBoardPending TensorBoardPhase = "Pending"
	// TensorBoardRunning: TensorBoard answers at its URL.
	TensorBoardRunning TensorBoardPhase = "Running"
	// TensorBoardSuspended: spec.suspend is true and no pod is left.
	TensorBoardSuspended TensorBoardPhase = "Suspended"
	// TensorBoardFailed: something must be changed before TensorBoard can run. The condition Ready says what.
	TensorBoardFailed TensorBoardPhase = "Failed"
)

// TensorBoardStatus is the observed state of a TensorBoard.
type TensorBoardStatus struct {
	// The generation of the spec that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Where the TensorBoard is in its life: Pending, Running, Suspended or Failed.
	//
	// +optional
	Phase TensorBoardPhase `json:"phase,omitempty"`

	// The pod that runs TensorBoard. Unset while there is none.
	//
	// +optional
	Pod *PodStatus `json:"pod,omitempty"`

	// Ready, Idle and SourcesAvailable, each with a reason.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []TensorBoardCondition `json:"conditions,omitempty"`

	// Where TensorBoard is served, also while it is suspended: the address of its Service, unless the controller is
	// configured with that of a gateway.
	//
	// +optional
	URL string `json:"url,omitempty"`
}

// PodStatus says which pod runs TensorBoard, and how it is.
type PodStatus struct {
	// Refers to the pod.
	//
	// +optional
	Reference *corev1.ObjectReference `json:"reference,omitempty"`

	// Phase of the pod.
	//
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`
}

// TensorBoardCondition is one aspect of a TensorBoard.
type TensorBoardCondition struct {
	// Type of the condition: Ready, Idle or SourcesAvailable.
	Type string `json:"type"`

	// Status of the condition: True, False or Unknown.
	//
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`

	// Why the condition has this status, as a word in CamelCase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// The same for humans.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// When the TensorBoard was last asked before this status was written. That it is asked again and answers the same is
	// not written.
	//
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`

	// When the condition came to have its status.
	//
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// Types of the conditions of a TensorBoard.
const (
	// ConditionReady is True while TensorBoard answers at its URL. False says what it waits for.
	ConditionReady = "Ready"
	// ConditionIdle is True when nobody has sent TensorBoard a request for as long as the controller is configured with,
	// and Unknown while there is no TensorBoard to ask.
	ConditionIdle = "Idle"
	// ConditionSourcesAvailable is False while logs in S3 or on HTTP servers cannot be fetched; the message says which and
	// why. It is Unknown while there is no TensorBoard to ask.
	ConditionSourcesAvailable = "SourcesAvailable"
)

// Reasons of ConditionReady, which are those of its events, too. Others it shares with jobs: Creating, Pending,
// Restarting, Unschedulable, ImagePull, ContainerConfig, NameConflict, CreateFailed, UpdateFailed, NotInstalled; and,
// with a queue, with PodGroups.
const (
	// ReasonServing: TensorBoard answers.
	ReasonServing = "Serving"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonCulled: spec.suspend is true because the controller set it, after TensorBoard had been idle for too long.
	ReasonCulled = "Culled"
	// ReasonQueued: the PodGroup waits for its queue.
	ReasonQueued = "Queued"
	// ReasonClaimNotReady: a PersistentVolumeClaim does not exist, or is not bound yet.
	ReasonClaimNotReady = "ClaimNotReady"
	// ReasonClaimExclusive: a PersistentVolumeClaim is ReadWriteOncePod, which TensorBoard cannot share with the training.
	ReasonClaimExclusive = "ClaimExclusive"
	// ReasonCrashing: the TensorBoard container ends again and again.
	ReasonCrashing = "Crashing"
	// ReasonGivingWay: a pod that is no TensorBoard's needs a claim on another node, which TensorBoard moves to.
	ReasonGivingWay = "GivingWay"
	// ReasonStopping: a pod that is no longer wanted is ending.
	ReasonStopping = "Stopping"
)

// Reasons of ConditionIdle and ConditionSourcesAvailable.
const (
	// ReasonRecentRequest: somebody looked at TensorBoard not long ago.
	ReasonRecentRequest = "RecentRequest"
	// ReasonNoRequest: nobody has looked at TensorBoard for long.
	ReasonNoRequest = "NoRequest"
	// ReasonNotRunning: there is no TensorBoard to ask.
	ReasonNotRunning = "NotRunning"
	// ReasonProbeFailed: the pod runs but does not say how it is. It is not culled then.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonAllAvailable: no source reports an error.
	ReasonAllAvailable = "AllAvailable"
	// ReasonFetchFailed: logs cannot be fetched from a source.
	ReasonFetchFailed = "FetchFailed"
)

// LabelName is the label of the objects of a TensorBoard that holds its name.
const LabelName = "tensorstack.dev/tensorboard"
