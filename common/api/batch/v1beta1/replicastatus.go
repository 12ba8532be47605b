package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReplicaPhase is where one replica is in its lifecycle: Creating, Pending, Running, Succeeded, Failed, Unknown or
// Deleted. Later versions can add phases. At most 32 characters.
//
// +kubebuilder:validation:MaxLength=32
type ReplicaPhase string

// Phases of a replica.
const (
	// ReplicaPhaseCreating: the replica has no pod yet.
	ReplicaPhaseCreating ReplicaPhase = "Creating"
	// ReplicaPhasePending: the pod waits for a node, or its main container has not started yet.
	ReplicaPhasePending ReplicaPhase = "Pending"
	// ReplicaPhaseRunning: the main container runs.
	ReplicaPhaseRunning ReplicaPhase = "Running"
	// ReplicaPhaseSucceeded: the main container ended with exit code 0.
	ReplicaPhaseSucceeded ReplicaPhase = "Succeeded"
	// ReplicaPhaseFailed: the main container ended with a non-zero exit code, or the pod failed or was disrupted.
	ReplicaPhaseFailed ReplicaPhase = "Failed"
	// ReplicaPhaseUnknown: the state of the pod cannot be obtained. Kubernetes no longer reports this state.
	ReplicaPhaseUnknown ReplicaPhase = "Unknown"
	// ReplicaPhaseDeleted: the pod was deleted and is not replaced unless the job is resumed.
	ReplicaPhaseDeleted ReplicaPhase = "Deleted"
)

// TaskStatus is the observed state of the replicas of one type.
type TaskStatus struct {
	// Type of the replicas.
	Type string `json:"type"`

	// The number of restarts of replicas of this type, including restarts that did not count towards
	// runPolicy.backoffLimit. A restart of the whole job adds one for each replica.
	//
	// +optional
	RestartCount int32 `json:"restartCount,omitempty"`

	// The status of each replica, by index.
	//
	// +optional
	// +listType=atomic
	Replicas []ReplicaStatus `json:"replicas,omitempty"`
}

// ReplicaStatus is the observed state of one replica.
type ReplicaStatus struct {
	// Name of the replica and of its pod.
	Name string `json:"name"`

	// UID of the pod. Empty if the replica has no pod.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Phase of the replica.
	Phase ReplicaPhase `json:"phase"`

	// Name of the node that the pod is bound to.
	//
	// +optional
	Node string `json:"node,omitempty"`

	// The number of restarts of this replica alone since all replicas were last replaced together, including restarts
	// that did not count towards runPolicy.backoffLimit. A restart, a pause or an eviction of the whole job replaces all
	// replicas together. The job counts these in status.attempt, status.pauses and status.evictions.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// The earliest time at which the next pod of a replica that ended can be created. If unset, it can be created
	// immediately.
	//
	// +optional
	RestartTime *metav1.Time `json:"restartTime,omitempty"`

	// The status of the containers of the pod, except init containers.
	//
	// +optional
	// +listType=atomic
	Containers []ContainerStatus `json:"containers,omitempty"`
}

// ContainerState is the state of a container: Waiting, Running or Terminated. Later versions can add states. At most 32
// characters.
//
// +kubebuilder:validation:MaxLength=32
type ContainerState string

const (
	// ContainerWaiting: the container has not started.
	ContainerWaiting ContainerState = "Waiting"
	// ContainerRunning: the container runs.
	ContainerRunning ContainerState = "Running"
	// ContainerTerminated: the container has ended.
	ContainerTerminated ContainerState = "Terminated"
)

// ContainerStatus is the observed state of one container.
type ContainerStatus struct {
	// Name of the container.
	Name string `json:"name"`

	// State of the container: Waiting, Running or Terminated.
	State ContainerState `json:"state"`

	// Exit code of the container. Unset unless the container is terminated.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// The reason that the kubelet gives for the state of a container that waits or has terminated.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Aggregate is the number of replicas in each phase.
type Aggregate struct {
	// The number of replicas that have no pod yet.
	Creating int32 `json:"creating"`
	// The number of replicas whose pod waits for a node, or whose main container has not started yet.
	Pending int32 `json:"pending"`
	// The number of replicas whose main container runs.
	Running int32 `json:"running"`
	// The number of replicas whose main container ended with exit code 0.
	Succeeded int32 `json:"succeeded"`
	// The number of replicas that failed.
	Failed int32 `json:"failed"`
	// The number of replicas whose state cannot be obtained.
	Unknown int32 `json:"unknown"`
	// The number of replicas whose pod was deleted and is not replaced.
	Deleted int32 `json:"deleted"`
}
