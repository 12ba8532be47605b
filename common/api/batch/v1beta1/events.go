package v1beta1

// Reasons of the events of a job. Besides, whatever keeps a job from what its spec asks for is told by an event once,
// when it comes up, with the reason that ConditionInitialized, ConditionRunning or status.tensorboard then has.
const (
	// EventCreated: replicas were created.
	EventCreated = "Created"
	// EventRunning: the job runs, as its condition Running says.
	EventRunning = "Running"
	// EventNoEffect: something in the spec has no effect; the message says what, and why.
	EventNoEffect = "NoEffect"
	// EventReplicaFailed: a replica failed and is not restarted, and the job goes on without it.
	EventReplicaFailed = "ReplicaFailed"
	// EventRestarting: a replica is restarted, or all are; the message says after which failure.
	EventRestarting = "Restarting"
	// EventScaled: the number of replicas of an elastic job changed.
	EventScaled = "Scaled"
	// EventPaused: none of the pods of a paused job is left.
	EventPaused = "Paused"
	// EventResumed: a paused job was resumed and its replicas are created.
	EventResumed = "Resumed"
	// EventCompleted: the job succeeded.
	EventCompleted = "Completed"
	// EventFailed: the job failed; the message says why, with the last output of the replica that was the cause.
	EventFailed = "Failed"
)
