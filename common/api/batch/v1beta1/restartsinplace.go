package v1beta1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestartsInPlace counts the restarts in place of a job. In a restart in place, a process fails, and the launcher
// starts the processes of all replicas again while the pods stay. The first process in the pod of the leader counts
// them, and the controller reads its count about every 15 seconds. Restarts in place that the controller has not read
// when this pod ends are lost. The values come from a pod of the user, so they can be wrong.
type RestartsInPlace struct {
	// The number of restarts in place since the job was created. At most 2147483647.
	Count int32 `json:"count"`

	// The number of restarts in place that the pod with podUID has counted. In its attempt, it counts towards
	// maxRestarts.
	AttemptCount int32 `json:"attemptCount"`

	// UID of the last pod of the leader that has counted a restart in place. The pod might no longer exist.
	PodUID types.UID `json:"podUID"`

	// The last 3 restarts in place, newest first.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Last []RestartInPlace `json:"last,omitempty"`
}

// KeptRestartsInPlace is the maximum number of restarts in place that a status describes.
const KeptRestartsInPlace = 3

// RestartInPlace is one restart in place.
type RestartInPlace struct {
	// Name of the replica whose process failed first. Unset if it is not known.
	//
	// +optional
	Replica string `json:"replica,omitempty"`

	// Rank of the process that failed first. Unset if it is not known.
	//
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// Exit code of the process that failed first, from 1 to 255. Unset if a signal ended the process, or if it is not
	// known.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// Signal that ended the process that failed first, such as SIGKILL. Unset if no signal ended it.
	//
	// +optional
	Signal string `json:"signal,omitempty"`

	// When the restart was counted, to within a few seconds.
	Time metav1.Time `json:"time"`
}

// String describes how the process that failed first ended, for example "rank 3 on bert-worker-1 was terminated by
// SIGKILL".
func (r RestartInPlace) String() string {
	who := "a process"
	if r.Rank != nil {
		who = fmt.Sprintf("rank %d", *r.Rank)
	}
	if r.Replica != "" {
		who += " on " + r.Replica
	}
	switch {
	case r.Signal != "":
		return who + " was terminated by " + r.Signal
	case r.ExitCode != nil:
		return fmt.Sprintf("%s ended with exit code %d", who, *r.ExitCode)
	default:
		return who + " failed"
	}
}
