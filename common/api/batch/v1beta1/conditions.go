package v1beta1

// Types of the conditions of a job. Each has abnormal-false polarity unless it says otherwise; a condition that is
// absent has not been true yet.
const (
	// ConditionInitialized is True once the job was accepted and all that its replicas need could be created. False says
	// what stands in the way.
	ConditionInitialized = "Initialized"
	// ConditionRunning is True while every replica runs or has done its part; of an elastic job at least minReplicas, the
	// leader among them. False says what the job waits for.
	ConditionRunning = "Running"
	// ConditionReplicaFailure is True while a replica has failed and is not yet running again; an elastic job need not
	// wait for it if all were restarted. Its normal state is absent or False.
	ConditionReplicaFailure = "ReplicaFailure"
	// ConditionSuccessCriteriaMet is True once the leader has succeeded, as that of a batch/v1 Job. The job will be
	// Completed. Until then its pods get some time to end, and are cleaned up. It is final.
	ConditionSuccessCriteriaMet = "SuccessCriteriaMet"
	// ConditionFailureTarget is True once it is decided that the job fails, as that of a batch/v1 Job, with the reason,
	// the replica and its exit code. The job will be Failed. Until then its pods are cleaned up. It is final. Its normal
	// state is absent.
	ConditionFailureTarget = "FailureTarget"
	// ConditionCompleted is True when the leader has succeeded and nothing of the job runs any more. With the
	// cleanUpPolicy None, pods may still run. It is final.
	ConditionCompleted = "Completed"
	// ConditionFailed is True when the job has failed and nothing of it runs any more, with the reason, the replica and
	// its exit code. With the cleanUpPolicy None, pods may still run. It is final. Its normal state is absent.
	ConditionFailed = "Failed"
	// ConditionPaused is True when the job is paused and none of its pods is left. Its normal state is absent or False.
	ConditionPaused = "Paused"
)

// Reasons of ConditionInitialized.
const (
	// ReasonAccepted: the job was accepted and its replicas are created as they are needed.
	ReasonAccepted = "Accepted"
	// ReasonNoReplicas: every replicaSpec has 0 replicas.
	ReasonNoReplicas = "NoReplicas"
	// ReasonInvalidTemplate: a pod cannot be made from a template.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonNameConflict: an object of the name that the job needs exists and is not the job's. It is left alone.
	ReasonNameConflict = "NameConflict"
	// ReasonCreateFailed: the API server refused an object of the job, for example because of a quota.
	ReasonCreateFailed = "CreateFailed"
	// ReasonAdmissionChangedPod: admission changes or removes a label of the pods by which the controllers know them.
	ReasonAdmissionChangedPod = "AdmissionChangedPod"
)

// Reasons of ConditionRunning. Those of a PodGroup come to them, if the job has one.
const (
	// ReasonReplicasRunning: every replica runs.
	ReasonReplicasRunning = "ReplicasRunning"
	// ReasonPartiallyRunning: enough replicas of an elastic job run; the message says what the others wait for.
	ReasonPartiallyRunning = "PartiallyRunning"
	// ReasonTooFewReplicas: fewer replicas than elastic.minReplicas are left; the others failed and are not restarted.
	ReasonTooFewReplicas = "TooFewReplicas"
	// ReasonQueued: the PodGroup of the job is not admitted yet, so that no pods are created.
	ReasonQueued = "Queued"
	// ReasonCreating: pods are being created.
	ReasonCreating = "Creating"
	// ReasonUnschedulable: no node can take a pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePull: an image cannot be pulled.
	ReasonImagePull = "ImagePull"
	// ReasonContainerConfig: a container cannot be created as its pod describes it.
	ReasonContainerConfig = "ContainerConfig"
	// ReasonPending: pods are bound to nodes and their containers are starting.
	ReasonPending = "Pending"
	// ReasonRestarting: replicas are being replaced after a failure.
	ReasonRestarting = "Restarting"
	// ReasonFinishing: the end of the job is decided, and some of its pods still run.
	ReasonFinishing = "Finishing"
	// ReasonFinished: the job has finished.
	ReasonFinished = "Finished"
)

// Reasons of ConditionPaused, and of ConditionRunning while the job is paused.
const (
	// ReasonPausing: the job is to be paused and its pods are being deleted.
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
	// ReasonBackoffLimitExceeded: a replica failed and no counted restart was left.
	ReasonBackoffLimitExceeded = "BackoffLimitExceeded"
	// ReasonPermanentFailure: a replica failed in a way that its restart policy does not restart.
	ReasonPermanentFailure = "PermanentFailure"
	// ReasonMaxDurationExceeded: the job was on nodes for longer than spec.maxDuration of its Queue.
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
	// ReasonPreempted: the scheduler gave the pod's place to one of a higher priority.
	ReasonPreempted = "Preempted"
	// ReasonEvicted: the pod was evicted, by the API, or by the kubelet for using more than the node could give.
	ReasonEvicted = "Evicted"
	// ReasonNodeLost: the node of the pod does not answer, was tainted with the effect NoExecute, or is gone.
	ReasonNodeLost = "NodeLost"
	// ReasonNodeShutdown: the kubelet ended the pod because the node was shut down or needed its place.
	ReasonNodeShutdown = "NodeShutdown"
	// ReasonDisrupted: Kubernetes ended the pod for another reason of its own.
	ReasonDisrupted = "Disrupted"
	// ReasonDeleted: somebody deleted the pod.
	ReasonDeleted = "Deleted"
	// ReasonCompleted: the main container ended with exit code 0. It is the cause of a restart by restart policy Always.
	ReasonCompleted = "Completed"
	// ReasonRecovered: every failed replica runs again.
	ReasonRecovered = "Recovered"
)

// Reasons of status.tensorboard. ReasonNameConflict, ReasonCreateFailed, ReasonCreating and ReasonDeleted come to them,
// and those of the condition Ready of the TensorBoard. They are reasons of ConditionInitialized, too, if they speak of
// the PodGroup or the NetworkPolicy of the job.
const (
	// ReasonNotInstalled: the cluster does not know the kind of the object.
	ReasonNotInstalled = "NotInstalled"
	// ReasonReadFailed: the controller cannot read objects of the kind.
	ReasonReadFailed = "ReadFailed"
	// ReasonUpdateFailed: the API server refused to change the object.
	ReasonUpdateFailed = "UpdateFailed"
	// ReasonDeleteFailed: the API server refused to delete the TensorBoard, which the job no longer wants.
	ReasonDeleteFailed = "DeleteFailed"
)
