package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JobPhase is a simple, high-level summary of where the job is in its lifecycle.
//
// +kubebuilder:validation:Enum=Pending;Running;Paused;Resuming;Succeeded;Failed;Unknown
type JobPhase string

// Phases of a job.
const (
	// JobPhasePending: not every replica runs yet, or some are being replaced.
	JobPhasePending JobPhase = "Pending"
	// JobPhaseRunning: every replica runs or has done its part; of an elastic job at least minReplicas, the leader among
	// them.
	JobPhaseRunning JobPhase = "Running"
	// JobPhasePaused: the job is paused and none of its replicas is left.
	JobPhasePaused JobPhase = "Paused"
	// JobPhaseResuming: the job was paused and does not run again yet.
	JobPhaseResuming JobPhase = "Resuming"
	// JobPhaseSucceeded: the leader succeeded, and nothing of the job runs any more. It is final.
	JobPhaseSucceeded JobPhase = "Succeeded"
	// JobPhaseFailed: the job failed, and nothing of it runs any more. It is final.
	JobPhaseFailed JobPhase = "Failed"
	// JobPhaseUnknown: the state of the leader cannot be obtained. Kubernetes no longer reports that of a pod, so that no
	// job has this phase. A job whose node does not answer stays Running.
	JobPhaseUnknown JobPhase = "Unknown"
)

// ReplicaPhase is where one replica is in its lifecycle.
//
// +kubebuilder:validation:Enum=Creating;Pending;Running;Succeeded;Failed;Unknown;Deleted
type ReplicaPhase string

// Phases of a replica.
const (
	// ReplicaPhaseCreating: the replica has no pod yet.
	ReplicaPhaseCreating ReplicaPhase = "Creating"
	// ReplicaPhasePending: the pod waits for a node or for its containers.
	ReplicaPhasePending ReplicaPhase = "Pending"
	// ReplicaPhaseRunning: the main container runs.
	ReplicaPhaseRunning ReplicaPhase = "Running"
	// ReplicaPhaseSucceeded: the main container ended with exit code 0.
	ReplicaPhaseSucceeded ReplicaPhase = "Succeeded"
	// ReplicaPhaseFailed: the main container ended with another exit code, or the pod failed before it ran.
	ReplicaPhaseFailed ReplicaPhase = "Failed"
	// ReplicaPhaseUnknown: the state of the pod cannot be obtained. Kubernetes no longer reports that.
	ReplicaPhaseUnknown ReplicaPhase = "Unknown"
	// ReplicaPhaseDeleted: the pod was deleted and is not replaced, unless the job is resumed.
	ReplicaPhaseDeleted ReplicaPhase = "Deleted"
)

// JobStatus is the observed state that every job kind shares.
type JobStatus struct {
	// The status of the replicas, one entry per replica type.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Tasks []TaskStatus `json:"tasks,omitempty"`

	// The number of replicas in each phase. The numbers sum up to the number of replicas of the job.
	//
	// +optional
	Aggregate *Aggregate `json:"aggregate,omitempty"`

	// The number of counted restarts that were performed. The failure that exceeds runPolicy.backoffLimit is not added.
	//
	// +optional
	// +kubebuilder:default=0
	BackoffCount int32 `json:"backoffCount"`

	// The latest available observations of the job's state. Types: Initialized, Running, ReplicaFailure, Paused,
	// SuccessCriteriaMet, FailureTarget, Completed, Failed.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// A simple, high-level summary of where the job is in its lifecycle. It is not a comprehensive state machine.
	// Succeeded and Failed are final. Once the end is decided, and until nothing of the job runs any more, the phase stays
	// as it was, and reason tells how the job ends.
	//
	// +optional
	Phase JobPhase `json:"phase,omitempty"`

	// The reason of the condition that explains the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// When the controller took up the job, to within some seconds. Pausing clears it and resuming sets it anew.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// When the job ran for the first time, as its condition Running says.
	//
	// +optional
	RunningTime *metav1.Time `json:"runningTime,omitempty"`

	// When the job succeeded or failed: when nothing of it ran any more. Unset until then. With the cleanUpPolicy None
	// it is when that was decided.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// The generation of the spec that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The number of replicas that have a pod.
	//
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// The label selector of the job's pods, in its string form, for autoscalers.
	//
	// +optional
	Selector string `json:"selector,omitempty"`

	// The number of replicas that run and are ready or have succeeded, of all: "2/4". All count in a job that succeeded,
	// since it needs no more of them.
	//
	// +optional
	Ready string `json:"ready,omitempty"`

	// How often every replica was restarted together, counted or not.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// How often the job was paused after it had started. From the first such pause on, replicas start as
	// runMode.pause.resumeSpecs says.
	//
	// +optional
	Pauses int32 `json:"pauses,omitempty"`

	// What the status leaves out of tasks and messages, since the API server would not store it, and where to see that.
	// Empty: nothing.
	//
	// +optional
	Omitted string `json:"omitted,omitempty"`

	// The last 5 failures of replicas, newest first. They outlive their pods.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Failures []ReplicaFailure `json:"failures,omitempty"`
}

// Finished reports whether the job has succeeded or failed, which is final.
func (s *JobStatus) Finished() bool {
	return s.Phase == JobPhaseSucceeded || s.Phase == JobPhaseFailed
}

// Decided reports whether it is decided how the job ends, which is final. The job has finished, or it will once nothing
// of it runs any more.
func (s *JobStatus) Decided() bool {
	return s.Finished() || meta.IsStatusConditionTrue(s.Conditions, ConditionSuccessCriteriaMet) ||
		meta.IsStatusConditionTrue(s.Conditions, ConditionFailureTarget)
}

// TaskStatus is the observed state of the replicas of one type.
type TaskStatus struct {
	// Type of the replicas.
	Type string `json:"type"`

	// How often replicas of this type were restarted, counted or not. A restart of the whole job adds one for each
	// replica.
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
	// Name of the replica, which is its pod's name.
	Name string `json:"name"`

	// UID of the pod. Empty while there is none.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Phase of the replica.
	Phase ReplicaPhase `json:"phase"`

	// Node that the pod is bound to.
	//
	// +optional
	Node string `json:"node,omitempty"`

	// How often this replica was restarted by itself, counted or not, since the last restart or pause of the whole job,
	// which status.attempt and status.pauses count.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// When the next pod of a failed replica may be created. Unset: at once.
	//
	// +optional
	RestartTime *metav1.Time `json:"restartTime,omitempty"`

	// The status of the containers of the pod, init containers left out.
	//
	// +optional
	// +listType=atomic
	Containers []ContainerStatus `json:"containers,omitempty"`
}

// ContainerState is what a container does.
//
// +kubebuilder:validation:Enum=Waiting;Running;Terminated
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

	// Exit code of the container, once it is terminated.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// Why the container waits or has ended, as the kubelet says it.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Aggregate is the number of replicas in each phase.
type Aggregate struct {
	// The number of replicas that have no pod yet.
	Creating int32 `json:"creating"`
	// The number of replicas whose pod waits for a node or for its containers.
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

// ReplicaFailure is one failure of a replica.
type ReplicaFailure struct {
	// Name of the replica. If the processes of all replicas are launched by one of them (DeepSpeed), it is the replica
	// whose process failed first, as far as the launcher tells, and not the one that launches.
	Replica string `json:"replica"`

	// Node that the replica ran on. Empty if it was never bound.
	//
	// +optional
	Node string `json:"node,omitempty"`

	// Exit code of the main container, of the one that launches if one replica launches all. Unset if it never ran to
	// an end.
	//
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// Rank of the process that failed first, from 0 among all processes of the training: the one that torchrun,
	// DeepSpeed or torch names in its output, which is as true as the program is honest; otherwise the rank of the
	// replica, if the job's replicas are its processes (PyTorch without torchrunConfig). Unset if it is not known.
	//
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// Exit code of the process of that rank, as its launcher names it: from 1 to 255. Unset if a signal ended the
	// process, or if no launcher tells; where the replica is the process, exitCode tells.
	//
	// +optional
	RankExitCode *int32 `json:"rankExitCode,omitempty"`

	// Signal that ended the process of that rank, as its launcher names it, such as SIGKILL. Unset if none did, or if
	// no launcher tells.
	//
	// +optional
	RankSignal string `json:"rankSignal,omitempty"`

	// Why the replica failed: Error, OOMKilled, Evicted, Preempted, NodeLost, NodeShutdown, Deleted, or what else the
	// kubelet says.
	Reason string `json:"reason"`

	// When the replica failed.
	Time metav1.Time `json:"time"`

	// Whether the failure counts towards runPolicy.backoffLimit. The one that finds it used up counts, and is followed by
	// no restart.
	Counted bool `json:"counted"`

	// The kubelet's message, if it has one, and the end of what the replica printed. If a launcher tells which process
	// failed first, only its report about that process, and what the process printed. At most 5 KiB.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// DependentStatus is the status of an object that the job owns.
type DependentStatus struct {
	// Name that tells this dependent apart from the job's others. It is not the name of the object.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Refers to the object.
	//
	// +optional
	Dependent *corev1.ObjectReference `json:"dependent,omitempty"`

	// Whether the object is ready to work.
	//
	// +optional
	Ready bool `json:"ready"`

	// Why the object is in this status.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// What the controller did last with the object: Create, Update or Delete. Empty: nothing yet.
	//
	// +optional
	Action string `json:"action,omitempty"`

	// More about this status.
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
