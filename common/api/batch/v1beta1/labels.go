package v1beta1

// Labels of the pods, Services and TensorBoards of a job. A template cannot override them.
const (
	// LabelJobKind holds the kind of the job.
	LabelJobKind = "batch.tensorstack.dev/job-kind"
	// LabelJobName holds the name of the job.
	LabelJobName = "batch.tensorstack.dev/job-name"
	// LabelReplicaType holds the type of the replica.
	LabelReplicaType = "batch.tensorstack.dev/replica-type"
	// LabelReplicaIndex holds the index of the replica among those of its type, from 0.
	LabelReplicaIndex = "batch.tensorstack.dev/replica-index"
	// LabelAttempt holds the attempt that the pod belongs to: how often the pods of all replicas had been replaced
	// together when it was created (status.attempt + status.pauses), then a dot and how often its replica had been by
	// itself, if it had.
	LabelAttempt = "batch.tensorstack.dev/attempt"
)

// FinalizerLeader keeps the pod of a leader until the status of its job accounts for its end. Controllers with
// --hold-leaders set it. All controllers remove it, and nothing else of a pod.
const FinalizerLeader = "batch.tensorstack.dev/leader"
