package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JobPhase is a simple, high-level summary of where the job is in its lifecycle: Pending, Running, Paused, Resuming,
// Succeeded, Failed or Unknown. Later versions can add phases. At most 32 characters.
//
// +kubebuilder:validation:MaxLength=32
type JobPhase string

// Phases of a job.
const (
	// JobPhasePending: not every replica runs yet, or some replicas are being replaced.
	JobPhasePending JobPhase = "Pending"
	// JobPhaseRunning: every replica runs, or has ended and is not restarted. An elastic job needs only minReplicas
	// running replicas, including the leader.
	JobPhaseRunning JobPhase = "Running"
	// JobPhasePaused: the job is paused, and all its pods are gone.
	JobPhasePaused JobPhase = "Paused"
	// JobPhaseResuming: the job was resumed after a pause, but does not run yet.
	JobPhaseResuming JobPhase = "Resuming"
	// JobPhaseSucceeded: the leader succeeded, and no pod of the job runs. The phase is final.
	JobPhaseSucceeded JobPhase = "Succeeded"
	// JobPhaseFailed: the job failed, and no pod of the job runs. The phase is final.
	JobPhaseFailed JobPhase = "Failed"
	// JobPhaseUnknown: the state of the leader cannot be obtained. No job has this phase, because Kubernetes no longer
	// reports this state of a pod. A job whose node does not respond stays Running.
	JobPhaseUnknown JobPhase = "Unknown"
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

// JobStatus is the observed state of a job. All job kinds share it.
type JobStatus struct {
	// The status of the replicas. There is one entry per replica type.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Tasks []TaskStatus `json:"tasks,omitempty"`

	// The number of replicas in each phase. The numbers add up to the number of replicas of the job.
	//
	// +optional
	Aggregate *Aggregate `json:"aggregate,omitempty"`

	// The number of restarts that counted towards runPolicy.backoffLimit. The failure that exceeds the limit is not
	// included, because no restart follows it.
	//
	// +optional
	// +kubebuilder:default=0
	BackoffCount int32 `json:"backoffCount"`

	// The number of restarts that did not count towards runPolicy.backoffLimit, because the program did not cause them:
	// after a preemption, an eviction, the loss of a node, a fault of a device, or the deletion of a pod. Unset: none.
	//
	// +optional
	Disruptions int32 `json:"disruptions,omitempty"`

	// The latest available observations of the job's state. The condition types are Initialized, Running, Stalled,
	// ReplicaFailure, Paused, SuccessCriteriaMet, FailureTarget, Completed and Failed.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// A simple, high-level summary of where the job is in its lifecycle. It is not a comprehensive state machine.
	// Succeeded and Failed are final. After it is decided how the job ends, the phase does not change until no pod of the
	// job runs. During that time, reason shows how the job ends.
	//
	// +optional
	Phase JobPhase `json:"phase,omitempty"`

	// The reason of the condition that explains the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// When the controller started the job, to within a few seconds. A pause clears this time, and resuming the job sets it
	// again.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// The defaults of fields of spec.runPolicy that hold for this job. A field that is set in the spec takes precedence.
	// They are recorded when the job starts, so that another version of the controller with other defaults does not change
	// a job that has started. A pause removes them, and they are recorded again when the job is resumed. A job that an
	// earlier version has started gets them together with its next change of the status. Unset: the defaults of the
	// controller hold.
	//
	// +optional
	Defaults *PolicyDefaults `json:"defaults,omitempty"`

	// When the condition Running became True for the first time.
	//
	// +optional
	RunningTime *metav1.Time `json:"runningTime,omitempty"`

	// When the job finished: it had succeeded or failed, and no pod of the job ran any longer. With cleanUpPolicy None,
	// this is when it was decided how the job ends. Unset until then.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// The generation of the spec that this status is based on.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The number of replicas that have a pod.
	//
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// The label selector of the job's pods, as a string. Autoscalers use it.
	//
	// +optional
	Selector string `json:"selector,omitempty"`

	// The number of ready or succeeded replicas and the number of all replicas, for example "2/4". In a job that
	// succeeded, all replicas count as ready.
	//
	// +optional
	Ready string `json:"ready,omitempty"`

	// The number of times that all replicas were restarted together, including restarts that did not count towards
	// runPolicy.backoffLimit.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// The number of times that the job was paused after it had started. After the first such pause, replicas start as
	// specified by runMode.pause.resumeSpecs.
	//
	// +optional
	Pauses int32 `json:"pauses,omitempty"`

	// The number of times that all replicas were stopped because the admission of the job was withdrawn, for example by
	// a preemption in Kueue, or because a ResourceQuota had no room for the others. This does not count towards
	// runPolicy.backoffLimit.
	//
	// +optional
	Evictions int32 `json:"evictions,omitempty"`

	// How far the training is, as it reports. It is kept over restarts, pauses and the end of the job. While nothing else
	// changes, it is updated at most every 30 seconds, and less often if many jobs report. Unset until the first report.
	//
	// +optional
	Progress *ProgressStatus `json:"progress,omitempty"`

	// Describes the data that is omitted from tasks and messages because the status would be too large for the API server,
	// and where to find that data. Empty if nothing is omitted.
	//
	// +optional
	Omitted string `json:"omitted,omitempty"`

	// The nodes that new pods of the job avoid, the oldest first. A node is added when replicas have failed on it twice,
	// as failures shows: a node that is lost, or whose devices are unhealthy or have a taint. At most 16, and the oldest
	// is removed for another. Empty with runPolicy.badNodePolicy Ignore, with pods whose nodes the template names or Kueue
	// assigns (topology-aware scheduling), and if an administrator has disabled it. Not updated while the job is paused,
	// and after it has finished.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	AvoidedNodes []AvoidedNode `json:"avoidedNodes,omitempty"`

	// The last 5 failures of replicas, newest first. They are kept after their pods are deleted.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Failures []ReplicaFailure `json:"failures,omitempty"`
}

// Finished reports whether the job has succeeded or failed. Both are final.
func (s *JobStatus) Finished() bool {
	return s.Phase == JobPhaseSucceeded || s.Phase == JobPhaseFailed
}

// Decided reports whether it is decided how the job ends. The decision is final. The job has finished, or it will
// finish when none of its pods runs any longer.
func (s *JobStatus) Decided() bool {
	return s.Finished() || meta.IsStatusConditionTrue(s.Conditions, ConditionSuccessCriteriaMet) ||
		meta.IsStatusConditionTrue(s.Conditions, ConditionFailureTarget)
}

// PolicyDefault is the default of a field of spec.runPolicy. Later versions can add values. At most 32 characters.
//
// +kubebuilder:validation:MaxLength=32
type PolicyDefault string

// Values of PolicyDefaults.RestartScope.
const (
	// DefaultScopeJob restarts all replicas after a failure, as RestartScopeJob does.
	DefaultScopeJob = PolicyDefault(RestartScopeJob)
	// DefaultScopeReplica restarts only the replica that failed, as RestartScopeReplica does.
	DefaultScopeReplica = PolicyDefault(RestartScopeReplica)
	// DefaultScopeRendezvous restarts all replicas after a failure that ends the rendezvous of torchrun, and only the
	// replica that failed after any other failure. A spec cannot request it, since it is only a default.
	DefaultScopeRendezvous PolicyDefault = "Rendezvous"
)

// PolicyDefaults are the defaults of those fields of spec.runPolicy that have no default in the schema.
type PolicyDefaults struct {
	// The default of restartScope: Job, Replica or Rendezvous. With Rendezvous, all replicas are restarted after a failure
	// that ends the rendezvous of torchrun, and only the replica that failed after any other failure. Empty: the
	// controller chooses, as the description of restartScope specifies.
	//
	// +optional
	RestartScope PolicyDefault `json:"restartScope,omitempty"`

	// The default of progressPolicy: Notify. Empty: the controller chooses.
	//
	// +optional
	ProgressPolicy PolicyDefault `json:"progressPolicy,omitempty"`

	// The default of badNodePolicy: Avoid. Empty: the controller chooses.
	//
	// +optional
	BadNodePolicy PolicyDefault `json:"badNodePolicy,omitempty"`
}

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

	// The number of times that this replica was restarted alone since the last restart or pause of the whole job,
	// including restarts that did not count towards runPolicy.backoffLimit. Restarts and pauses of the whole job are
	// counted by status.attempt and status.pauses.
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

// ReplicaFailure describes one failure of a replica.
type ReplicaFailure struct {
	// Name of the replica. If one replica launches the processes of all replicas (DeepSpeed), this is the replica whose
	// process failed first, if the launcher reports it, and otherwise the replica that runs the launcher.
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

	// Rank of the process that failed first, from 0, among all processes of the training. It is read from the output of
	// torchrun, DeepSpeed or torch, so a program can falsify it. If the output contains no rank and each replica is one
	// process (PyTorch without torchrunConfig), it is the rank of the replica. Unset if it is not known.
	//
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// Exit code of the process of that rank, from 1 to 255, as the launcher reports it. Unset if a signal ended the
	// process, or if no launcher reports an exit code. If the replica is the process, see exitCode.
	//
	// +optional
	RankExitCode *int32 `json:"rankExitCode,omitempty"`

	// Signal that ended the process of that rank, such as SIGKILL, as the launcher reports it. Unset if no signal ended
	// the process, or if no launcher reports one.
	//
	// +optional
	RankSignal string `json:"rankSignal,omitempty"`

	// Why the replica failed: Error, OOMKilled, Evicted, Preempted, NodeLost, NodeShutdown, DeviceUnhealthy,
	// DeviceTainted, Disrupted, Deleted, NoProgress, or another reason that the kubelet gives.
	Reason string `json:"reason"`

	// The devices of the replica that the kubelet reported as unhealthy, sorted by resource and id. At most 16. Kubernetes
	// reports them from version 1.36 on, or with its feature gate ResourceHealthStatus.
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

	// The message of the kubelet or the name of the init container that failed, if any, followed by the last output of the
	// replica. If a launcher reports which process failed first, the output is limited to that report and to the output of
	// that process. It has no escape sequences or control characters, and of a line that rewrites itself, such as a
	// progress bar, only the last state. At most 5 KiB.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// UnhealthyDevice is a device that the kubelet reported as unhealthy.
type UnhealthyDevice struct {
	// Name of the resource that the replica requested, such as nvidia.com/gpu. If the replica requested the device by a
	// ResourceClaim, "claim:" and the name of the claim in the pod, followed by "/" and the name of the request if the
	// container requested only that one.
	Resource string `json:"resource"`

	// ID of the device on its node, as its device plugin defines it. If the replica requested the device by a
	// ResourceClaim, the names of driver, pool and device, separated by "/".
	ID string `json:"id"`
}

// AvoidedNode is a node that new pods of a job avoid.
type AvoidedNode struct {
	// Name of the node.
	Name string `json:"name"`

	// Why the last replica failed on the node: NodeLost, DeviceUnhealthy or DeviceTainted.
	Reason string `json:"reason"`

	// When the job began to avoid the node.
	Since metav1.Time `json:"since"`

	// When the job stops avoiding the node: an hour after since, unless an administrator has set another duration. When a
	// replica cannot be scheduled, this time of the oldest node is brought forward to 5 minutes from then, so that the job
	// does not wait for a node that it avoids. When all replicas have nodes, it is an hour again.
	Until metav1.Time `json:"until"`
}

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
