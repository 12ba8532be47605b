package v1beta1

// Condition types of a job. A condition is True in the normal state, unless stated otherwise. A condition that is
// absent has never been True.
const (
	// ConditionInitialized is True once the job is accepted, unless something that the replicas need cannot be created. If
	// it is False, the reason and the message explain what blocks the job.
	ConditionInitialized = "Initialized"
	// ConditionRunning is True while every replica runs, or has ended and is not restarted. An elastic job needs only
	// minReplicas running replicas, including the leader. If the condition is False, the reason and the message explain
	// what the job waits for.
	ConditionRunning = "Running"
	// ConditionStalled is True from the time when the training exceeds runPolicy.progressDeadlineSeconds or
	// runPolicy.startupDeadlineSeconds until it is within its deadlines again or no longer runs. A condition that is not
	// True is Unknown while the controller cannot read the progress. The normal state is absent or False.
	ConditionStalled = "Stalled"
	// ConditionReplicaFailure is True from the failure of a replica until the replica runs again. After a restart of all
	// replicas of an elastic job, the condition becomes False as soon as minReplicas of them run, including the leader.
	// Its normal state is absent or False.
	ConditionReplicaFailure = "ReplicaFailure"
	// ConditionSuccessCriteriaMet is True once the leader has succeeded, as in a batch/v1 Job. It is final. The job
	// becomes Completed after the remaining pods have had some time to end and have been cleaned up.
	ConditionSuccessCriteriaMet = "SuccessCriteriaMet"
	// ConditionFailureTarget is True once it is certain that the job fails, as in a batch/v1 Job. The message contains the
	// replica that failed and its exit code, if a replica is the cause. The condition is final, and its normal state is
	// absent. The job becomes Failed after its pods have been cleaned up.
	ConditionFailureTarget = "FailureTarget"
	// ConditionCompleted is True when the leader has succeeded and no pod of the job runs. With cleanUpPolicy None, the
	// condition does not wait for the pods. It is final.
	ConditionCompleted = "Completed"
	// ConditionFailed is True when the job has failed and no pod of the job runs. With cleanUpPolicy None, the condition
	// does not wait for the pods. The message contains the replica that failed and its exit code, if a replica is the
	// cause. The condition is final, and its normal state is absent.
	ConditionFailed = "Failed"
	// ConditionPaused is True when the job is paused and all its pods are gone. Its normal state is absent or False.
	ConditionPaused = "Paused"
)

// Reasons of ConditionInitialized.
const (
	// ReasonAccepted: the job is accepted, and its replicas are created when they are needed.
	ReasonAccepted = "Accepted"
	// ReasonNoReplicas: every replicaSpec has 0 replicas.
	ReasonNoReplicas = "NoReplicas"
	// ReasonInvalidTemplate: no valid pod can be created from a template.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonNameConflict: an object with a name that the job needs already exists and does not belong to the job. The
	// controller does not change that object.
	ReasonNameConflict = "NameConflict"
	// ReasonCreateFailed: the API server rejected an object of the job, for example because of a policy.
	ReasonCreateFailed = "CreateFailed"
	// ReasonResourceQuotaExceeded: a ResourceQuota of the namespace has no room for the pods of the job. If the job
	// cannot train with only some of its pods, the existing pods are deleted. The job continues when the quota has room
	// for all of its pods.
	ReasonResourceQuotaExceeded = "ResourceQuotaExceeded"
	// ReasonAdmissionChangedPod: an admission webhook or policy changes or removes labels that the controllers need to
	// identify the pods.
	ReasonAdmissionChangedPod = "AdmissionChangedPod"
)

// Reasons of ConditionRunning. While ConditionInitialized is False, ConditionRunning can have the reason of
// ConditionInitialized. If the job has a PodGroup, ConditionRunning can have the reasons of the PodGroup's
// conditions.
const (
	// ReasonReplicasRunning: every replica runs, or has ended and is not restarted.
	ReasonReplicasRunning = "ReplicasRunning"
	// ReasonPartiallyRunning: enough replicas of an elastic job run. The message explains what the others wait for.
	ReasonPartiallyRunning = "PartiallyRunning"
	// ReasonTooFewReplicas: fewer than elastic.minReplicas replicas are left. The others failed and are not restarted.
	ReasonTooFewReplicas = "TooFewReplicas"
	// ReasonQueued: no pods are created because the PodGroup or the Workload of the job is not admitted yet.
	ReasonQueued = "Queued"
	// ReasonCreating: pods are being created.
	ReasonCreating = "Creating"
	// ReasonUnschedulable: a pod fits on no node.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePull: an image cannot be pulled.
	ReasonImagePull = "ImagePull"
	// ReasonContainerConfig: a container cannot be created or started as the pod specifies it.
	ReasonContainerConfig = "ContainerConfig"
	// ReasonPending: pods are being scheduled, or their containers are starting.
	ReasonPending = "Pending"
	// ReasonRestarting: replicas are being replaced after a failure.
	ReasonRestarting = "Restarting"
	// ReasonFinishing: it is decided whether the job succeeds or fails, but some of its pods still run.
	ReasonFinishing = "Finishing"
	// ReasonFinished: the job has finished.
	ReasonFinished = "Finished"
)

// Reasons of ConditionStalled. ReasonNoProgress is also a reason of ConditionReplicaFailure and of status.failures[].
const (
	// ReasonNoProgress: the training exceeded a deadline. Either it reported no other step for longer than
	// runPolicy.progressDeadlineSeconds, or it reported nothing for runPolicy.startupDeadlineSeconds after the job began
	// to run or its processes started again in their pods.
	ReasonNoProgress = "NoProgress"
	// ReasonProgressUnknown: the condition is Unknown, because the controller cannot read the progress. The message
	// contains the error. For example, a NetworkPolicy or a service mesh can prevent the controller from reaching the
	// pod.
	ReasonProgressUnknown = "ProgressUnknown"
	// ReasonProgressing: the training is within its deadlines again, because it reported another step, its processes
	// started again, or a deadline was changed. After the condition was Unknown, the reason means that the progress can
	// be read again.
	ReasonProgressing = "Progressing"
	// ReasonNotRunning: the replicas were stopped by a pause or an eviction, or the job ends for a reason other than a
	// stall.
	ReasonNotRunning = "NotRunning"
)

// Reasons of ConditionPaused, and of ConditionRunning while the job is paused.
const (
	// ReasonPausing: the job is being paused, and its pods are being deleted.
	ReasonPausing = "Pausing"
	// ReasonPaused: the job is paused.
	ReasonPaused = "Paused"
	// ReasonResumed: the job is no longer paused.
	ReasonResumed = "Resumed"
)

// Reasons of ConditionSuccessCriteriaMet and ConditionFailureTarget, and later of ConditionCompleted and
// ConditionFailed.
const (
	// ReasonLeaderSucceeded: the main container of the leader ended with exit code 0.
	ReasonLeaderSucceeded = "LeaderSucceeded"
	// ReasonBackoffLimitExceeded: a replica failed, and runPolicy.backoffLimit allows no further restart.
	ReasonBackoffLimitExceeded = "BackoffLimitExceeded"
	// ReasonPermanentFailure: a replica failed, and its restart policy does not restart it after such a failure.
	ReasonPermanentFailure = "PermanentFailure"
	// ReasonMaxDurationExceeded: the pods of the job were on nodes for longer than spec.maxDuration of the Queue.
	ReasonMaxDurationExceeded = "MaxDurationExceeded"
	// ReasonDeadlineExceeded: the job was active for longer than runPolicy.activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// Reasons of ConditionReplicaFailure, of status.failures[] and of status.tasks[].replicas[].containers[].
const (
	// ReasonError: the main container ended with a non-zero exit code.
	ReasonError = "Error"
	// ReasonOOMKilled: the kernel killed the main container for using more memory than its limit.
	ReasonOOMKilled = "OOMKilled"
	// ReasonPreempted: the pod was preempted by a pod of higher priority.
	ReasonPreempted = "Preempted"
	// ReasonEvicted: the pod was evicted through the eviction API, by a taint of its node, or by the kubelet because
	// resources of the node ran low or the pod exceeded its limit of ephemeral storage. If a taint evicts the pod from a
	// node that does not respond, the reason is NodeLost instead.
	ReasonEvicted = "Evicted"
	// ReasonNodeLost: the node of the pod does not respond or no longer exists, or the container of the pod is gone from
	// the node, for example because the node restarted without a shutdown.
	ReasonNodeLost = "NodeLost"
	// ReasonNodeShutdown: the kubelet terminated the pod because the node was shut down or needed the pod's resources.
	ReasonNodeShutdown = "NodeShutdown"
	// ReasonDeviceUnhealthy: the kubelet reported a device of the pod, such as a GPU, as unhealthy.
	// status.failures[].devices has the devices.
	ReasonDeviceUnhealthy = "DeviceUnhealthy"
	// ReasonDeviceTainted: a device that was allocated to the pod by a ResourceClaim has a taint with the effect
	// NoExecute.
	ReasonDeviceTainted = "DeviceTainted"
	// ReasonDisrupted: Kubernetes terminated the pod because of another kind of disruption.
	ReasonDisrupted = "Disrupted"
	// ReasonDeleted: the pod was deleted by a user or another controller.
	ReasonDeleted = "Deleted"
	// ReasonCompleted: the main container ended with exit code 0. The restart policy Always restarts a replica for this
	// reason.
	ReasonCompleted = "Completed"
	// ReasonRecovered: every replica that failed runs again, or enough replicas of an elastic job run again.
	ReasonRecovered = "Recovered"
)

// Reasons of status.tensorboard. It can also have ReasonNameConflict, ReasonCreateFailed, ReasonCreating,
// ReasonDeleted and the reasons of the TensorBoard's condition Ready. If the job has a problem with its PodGroup,
// Workload or NetworkPolicy, ConditionInitialized can have one of the reasons below, except ReasonDeleteFailed.
const (
	// ReasonNotInstalled: the CustomResourceDefinition of the object is not installed.
	ReasonNotInstalled = "NotInstalled"
	// ReasonReadFailed: the controller cannot read the object.
	ReasonReadFailed = "ReadFailed"
	// ReasonUpdateFailed: the API server rejected an update of the object.
	ReasonUpdateFailed = "UpdateFailed"
	// ReasonDeleteFailed: the API server rejected the deletion of a TensorBoard that the job no longer needs.
	ReasonDeleteFailed = "DeleteFailed"
)
