package v1beta1

// Reasons of the events of a job. The controller also emits an event when a problem with the objects, the queue or
// the TensorBoard of the job begins. That event has the reason of ConditionInitialized, ConditionRunning or
// status.tensorboard.
const (
	// EventCreated: replicas were created.
	EventCreated = "Created"
	// EventRunning: the job runs, and its condition Running became True.
	EventRunning = "Running"
	// EventNoEffect: a part of the spec has no effect. The message names that part and explains why.
	EventNoEffect = "NoEffect"
	// EventReplicaFailed: a replica failed and is not restarted, and the job continues without it.
	EventReplicaFailed = "ReplicaFailed"
	// EventRestarting: one replica or all replicas are restarted. The message contains the failure that is the cause.
	EventRestarting = "Restarting"
	// EventRestartedInPlace: the launcher has started the processes of the job again while the pods stayed, once or
	// several times. The message contains the number, and the process that failed first in the last of these restarts.
	EventRestartedInPlace = "RestartedInPlace"
	// EventStalled: the training has reported no progress for too long, and runPolicy.progressPolicy is Notify. The
	// message contains the last step and its time. With the policy Restart, there is an event Restarting instead.
	EventStalled = "Stalled"
	// EventProgressing: the training of a stalled job is within its deadlines again.
	EventProgressing = "Progressing"
	// EventNodeAvoided: new pods of the job avoid a node on which replicas have failed twice because of the node. The
	// message names the node.
	EventNodeAvoided = "NodeAvoided"
	// EventNodeAllowed: new pods of the job can run again on a node that they avoided. The message names the node and
	// explains why.
	EventNodeAllowed = "NodeAllowed"
	// EventScaled: the number of replicas of an elastic job changed.
	EventScaled = "Scaled"
	// EventPaused: the job is paused, and all its pods are gone.
	EventPaused = "Paused"
	// EventResumed: the job was resumed, and its replicas are being created.
	EventResumed = "Resumed"
	// EventStopped: the admission of the job was withdrawn, and its replicas are stopped. The message explains why.
	EventStopped = "Stopped"
	// EventCompleted: the job succeeded.
	EventCompleted = "Completed"
	// EventFailed: the job failed. The message explains why, with the last output of the replica that caused the failure.
	EventFailed = "Failed"
)
