package v1beta1

// Labels of the pods, Services and TensorBoards of a job. A template cannot override them.
const (
	// LabelJobKind holds the kind of the job.
	LabelJobKind = "batch.tensorstack.dev/job-kind"
	// LabelJobName holds the name of the job.
	LabelJobName = "batch.tensorstack.dev/job-name"
	// LabelReplicaType holds the type of the replica.
	LabelReplicaType = "batch.tensorstack.dev/replica-type"
	// LabelReplicaIndex holds the index of the replica within its type, from 0.
	LabelReplicaIndex = "batch.tensorstack.dev/replica-index"
	// LabelAttempt holds the attempt that the pod belongs to. The value is the number of times that all replicas were
	// replaced together before the pod was created (status.attempt + status.pauses + status.evictions). If the pod of
	// this replica alone was replaced after that, the value ends with a dot and the number of these replacements.
	LabelAttempt = "batch.tensorstack.dev/attempt"
	// LabelAdmittedBy holds the UID of the Workload by which Kueue has admitted the pod. Pods of jobs that are not in a
	// queue of Kueue do not have the label.
	LabelAdmittedBy = "batch.tensorstack.dev/admitted-by"
)

// FinalizerLeader keeps the pod of a leader until the status of the job records how the pod ended. Controllers with
// --hold-leaders set this finalizer. All job controllers remove this finalizer, with or without the flag. A job
// controller changes nothing else in an existing pod.
const FinalizerLeader = "batch.tensorstack.dev/leader"

// AnnotationAvoidsNode holds the name of one of the nodes that the pod avoids: the node that the job has avoided for
// the longest time. Pods that avoid no node do not have it.
const AnnotationAvoidsNode = "batch.tensorstack.dev/avoids-node"

// Annotations of the pods that the controller reads.
const (
	// AnnotationProgressPort holds the port on which the controller reads the progress.
	AnnotationProgressPort = "batch.tensorstack.dev/progress-port"
	// AnnotationProgressToken holds the token that authenticates the training and the controller to the sidecar that
	// receives reports. The controller generates it for each pod.
	AnnotationProgressToken = "batch.tensorstack.dev/progress-token"
	// AnnotationSupervisorPort is set on the pod of a leader whose supervisor counts restarts in place. It holds the port
	// on which the controller reads their number.
	AnnotationSupervisorPort = "batch.tensorstack.dev/supervisor-port"
)
