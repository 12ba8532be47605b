package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReplicaFailure describes one failure of a replica.
type ReplicaFailure struct {
	// Name of the replica. If one replica launches the processes of all replicas (DeepSpeed), this is the replica whose
	// process failed first. If the launcher does not report which process failed first, this is the replica that runs
	// the launcher.
	Replica string `json:"replica"`

	// Name of the node that the replica ran on. Empty if the pod was never bound to a node.
	//
	// +optional
	Node string `json:"node,omitempty"`

	// Exit code of the main container, or of the init container that failed. If one replica launches the processes of all
	// replicas, this is the exit code of the replica that runs the launcher. Unset if no container ended with an error.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// Rank of the process that failed first. Ranks number all processes of the training, beginning with 0. The rank is
	// read from the output of torchrun, DeepSpeed or torch, so a program can falsify it. If the output contains no rank
	// and each replica is one process (PyTorch without torchrunConfig), this is the rank of the replica. Unset if the
	// rank is not known.
	//
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// Exit code of the process that failed first (see rank), from 1 to 255, as the launcher reports it. Unset if a
	// signal ended the process, or if no launcher reports an exit code. If each replica is one process, see exitCode
	// instead.
	//
	// +optional
	RankExitCode *int32 `json:"rankExitCode,omitempty"`

	// Signal that ended the process that failed first (see rank), such as SIGKILL, as the launcher reports it. Unset if
	// no signal ended the process, or if no launcher reports a signal.
	//
	// +optional
	RankSignal string `json:"rankSignal,omitempty"`

	// Why the replica failed: Error, OOMKilled, Evicted, Preempted, NodeLost, NodeShutdown, DeviceUnhealthy,
	// DeviceTainted, Disrupted, Deleted, NoProgress, or another reason that the kubelet gives.
	Reason string `json:"reason"`

	// The devices of the replica that the kubelet reported as unhealthy, sorted by resource and id. At most 16. The
	// kubelet reports unhealthy devices from Kubernetes 1.36 on, or with the feature gate ResourceHealthStatus.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Devices []UnhealthyDevice `json:"devices,omitempty"`

	// When the replica failed.
	Time metav1.Time `json:"time"`

	// Whether the failure counts towards runPolicy.backoffLimit. The failure that exceeds the limit counts, too, but no
	// restart follows it.
	Counted bool `json:"counted"`

	// The last output of the replica. Before it comes the message of the kubelet, or the name of the init container that
	// failed, if there is one. If a launcher reports which process failed first, the output is limited to that report
	// and to the output of that process. The message has no escape sequences or control characters. For a line that
	// rewrites itself, such as a progress bar, it has only the last state. At most 5 KiB.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// UnhealthyDevice is a device that the kubelet reported as unhealthy.
type UnhealthyDevice struct {
	// Name of the resource that the replica requested, such as nvidia.com/gpu. If the replica requested the device by a
	// ResourceClaim, this is "claim:" and the name of the claim in the pod. If the container uses only one request of
	// the claim, "/" and the name of that request follow.
	Resource string `json:"resource"`

	// ID of the device on its node, as its device plugin defines it. If the replica requested the device by a
	// ResourceClaim, this is the names of driver, pool and device, separated by "/".
	ID string `json:"id"`
}
