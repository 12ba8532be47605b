package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TensorBoard shows training logs in a browser. It runs in a pod named `<name>-tb` behind a Service of the same name.
// The controller suspends it when it has received no request for a configured time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tb,categories=training
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Idle",type=string,JSONPath=`.status.conditions[?(@.type=="Idle")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 60",message="metadata.name must be a DNS-1035 label of at most 60 characters, since the Service is named <name>-tb: lower case letters, digits and '-', beginning with a letter and ending with a letter or digit",fieldPath=".metadata"
type TensorBoard struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The logs to show, and how to run TensorBoard. All fields except scheduler can be changed at any time. A change
	// restarts TensorBoard, unless only suspend is changed.
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

// TensorBoardPhase is a simple, high-level summary of where a TensorBoard is in its lifecycle: Pending, Running,
// Suspended or Failed. Later versions can add phases. At most 32 characters.
//
// +kubebuilder:validation:MaxLength=32
type TensorBoardPhase string

// Phases of a TensorBoard. None is final.
const (
	// TensorBoardPending: TensorBoard is starting, or it waits for something. The condition Ready has the reason.
	TensorBoardPending TensorBoardPhase = "Pending"
	// TensorBoardRunning: TensorBoard responds at its URL.
	TensorBoardRunning TensorBoardPhase = "Running"
	// TensorBoardSuspended: spec.suspend is true, and the pod is gone.
	TensorBoardSuspended TensorBoardPhase = "Suspended"
	// TensorBoardFailed: TensorBoard cannot run until a problem is fixed. The condition Ready describes the problem.
	TensorBoardFailed TensorBoardPhase = "Failed"
)

// TensorBoardStatus is the observed state of a TensorBoard.
type TensorBoardStatus struct {
	// The generation of the spec that this status is based on.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Where the TensorBoard is in its lifecycle: Pending, Running, Suspended or Failed.
	//
	// +optional
	Phase TensorBoardPhase `json:"phase,omitempty"`

	// The pod that runs TensorBoard. Unset if there is no pod.
	//
	// +optional
	Pod *PodStatus `json:"pod,omitempty"`

	// The latest available observations of the TensorBoard's state. The condition types are Ready, Idle and
	// SourcesAvailable.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []TensorBoardCondition `json:"conditions,omitempty"`

	// The address of TensorBoard, which is kept while TensorBoard is suspended. It is the address of the Service, or of a
	// gateway if one is configured in the controller.
	//
	// +optional
	URL string `json:"url,omitempty"`
}

// PodStatus describes the pod that runs TensorBoard.
type PodStatus struct {
	// Reference to the pod.
	//
	// +optional
	Reference *corev1.ObjectReference `json:"reference,omitempty"`

	// Phase of the pod.
	//
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`
}

// TensorBoardCondition describes one aspect of the state of a TensorBoard.
type TensorBoardCondition struct {
	// Type of the condition: Ready, Idle or SourcesAvailable.
	Type string `json:"type"`

	// Status of the condition: True, False or Unknown.
	//
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`

	// The reason for the status of the condition, as one word in CamelCase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// A human-readable message with details.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// When TensorBoard was probed for this condition. Later probes with the same result do not change this time. Unset
	// in the condition Ready, which no probe determines.
	//
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`

	// When the status of the condition last changed.
	//
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// Condition types of a TensorBoard.
const (
	// ConditionReady is True while TensorBoard responds at its URL. If it is False, the reason and the message explain
	// what TensorBoard waits for.
	ConditionReady = "Ready"
	// ConditionIdle is True when TensorBoard has received no request for the configured time. It stays True if TensorBoard
	// is suspended for this reason. Otherwise, it is Unknown while TensorBoard does not run or does not respond.
	ConditionIdle = "Idle"
	// ConditionSourcesAvailable is False while logs in S3 or on HTTP servers cannot be fetched. The message contains a
	// source and its error. The condition is Unknown while TensorBoard does not run or does not respond.
	ConditionSourcesAvailable = "SourcesAvailable"
)

// Reasons of ConditionReady and of events. The following reasons of jobs can occur, too: Creating, Pending, Restarting,
// Unschedulable, ImagePull, ContainerConfig, NameConflict, CreateFailed, UpdateFailed and NotInstalled. If the
// TensorBoard is scheduled from a queue, the reasons of PodGroups can also occur.
const (
	// ReasonServing: TensorBoard responds.
	ReasonServing = "Serving"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonCulled: the controller set spec.suspend to true because TensorBoard was idle for too long.
	ReasonCulled = "Culled"
	// ReasonQueued: the PodGroup is not admitted to its queue yet.
	ReasonQueued = "Queued"
	// ReasonClaimNotReady: a PersistentVolumeClaim does not exist or is not bound yet.
	ReasonClaimNotReady = "ClaimNotReady"
	// ReasonClaimExclusive: a PersistentVolumeClaim has the access mode ReadWriteOncePod, so TensorBoard cannot share it
	// with the training.
	ReasonClaimExclusive = "ClaimExclusive"
	// ReasonCrashing: a container of TensorBoard crashes repeatedly.
	ReasonCrashing = "Crashing"
	// ReasonGivingWay: another pod needs a PersistentVolumeClaim on another node. The TensorBoard pod is deleted and
	// recreated on that node.
	ReasonGivingWay = "GivingWay"
	// ReasonStopping: a pod of TensorBoard that is no longer needed is ending.
	ReasonStopping = "Stopping"
)

// Reasons of ConditionIdle and ConditionSourcesAvailable.
const (
	// ReasonRecentRequest: TensorBoard has received a request recently.
	ReasonRecentRequest = "RecentRequest"
	// ReasonNoRequest: TensorBoard has received no request for the configured time.
	ReasonNoRequest = "NoRequest"
	// ReasonNotRunning: TensorBoard does not run, so it cannot be probed.
	ReasonNotRunning = "NotRunning"
	// ReasonProbeFailed: the pod runs but does not respond to the probe. The controller does not suspend such a
	// TensorBoard.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonAllAvailable: no source reports an error.
	ReasonAllAvailable = "AllAvailable"
	// ReasonFetchFailed: logs cannot be fetched from a source.
	ReasonFetchFailed = "FetchFailed"
)

// LabelName is the label that holds the name of the TensorBoard on the objects that it owns.
const LabelName = "tensorstack.dev/tensorboard"
