package v1beta1

// RestartPolicy says when the controller replaces a replica that ended. The pods themselves always have
// restartPolicy Never: a restart is a new pod.
//
// +kubebuilder:validation:Enum=Always;OnFailure;Never;ExitCode
type RestartPolicy string

const (
	// RestartPolicyAlways restarts a replica whenever it ends, on success too. The leader's exit code 0 still ends the
	// job.
	RestartPolicyAlways RestartPolicy = "Always"
	// RestartPolicyOnFailure restarts a replica that failed.
	RestartPolicyOnFailure RestartPolicy = "OnFailure"
	// RestartPolicyNever never restarts a replica, not even after a disruption.
	RestartPolicyNever RestartPolicy = "Never"
	// RestartPolicyExitCode restarts a replica that ended with 130, 137, 138 or 143. Any other non-zero code is permanent.
	RestartPolicyExitCode RestartPolicy = "ExitCode"
)

// CleanUpPolicy tells which pods are deleted once it is decided how the job ends.
//
// +kubebuilder:validation:Enum=All;Unfinished;None
type CleanUpPolicy string

const (
	// CleanUpPolicyAll deletes every pod.
	CleanUpPolicyAll CleanUpPolicy = "All"
	// CleanUpPolicyUnfinished deletes the pods that still hold resources and keeps the ended ones, with their logs.
	CleanUpPolicyUnfinished CleanUpPolicy = "Unfinished"
	// CleanUpPolicyNone deletes no pod.
	CleanUpPolicyNone CleanUpPolicy = "None"
)

// RestartScope says what one failure restarts.
//
// +kubebuilder:validation:Enum=Replica;Job
type RestartScope string

const (
	// RestartScopeReplica restarts the failed replica alone; the leader alone decides how the job ends.
	RestartScopeReplica RestartScope = "Replica"
	// RestartScopeJob restarts every replica, as one counted attempt; a permanent failure of any replica fails the job.
	RestartScopeJob RestartScope = "Job"
)

const (
	// DefaultBackoffLimit is the backoffLimit of a job that sets none.
	DefaultBackoffLimit int32 = 3
	// DefaultCleanUpPolicy is the cleanUpPolicy of a job that sets none.
	DefaultCleanUpPolicy = CleanUpPolicyUnfinished
)

// RunPolicy encapsulates the runtime policies of a distributed training job: how long it may be active, how often it is
// retried and what is cleaned up. It may be changed at any time; what is decided about the
// end of a job stays.
type RunPolicy struct {
	// Duration in seconds, counted from status.startTime, that the job may be active before it is failed with reason
	// DeadlineExceeded. Waiting in a queue counts. At least 1 and at most 2147483647, which is 68 years. Unset: no limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// Number of counted restarts before the job is failed. At least 0. Defaults to 3. Disruptions (preemption, eviction,
	// node shutdown) and failures before any container started do not count.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// Which pods are deleted once it is decided how the job ends: All, Unfinished (those in which a container still runs,
	// even if it is a sidecar) or None (what still runs keeps its resources, and the job finishes nevertheless). Defaults
	// to Unfinished.
	//
	// +optional
	// +kubebuilder:default=Unfinished
	CleanUpPolicy CleanUpPolicy `json:"cleanUpPolicy,omitempty"`

	// Time in seconds after which a finished job is deleted, with all it owns. 0 deletes it at once. Unset: it is kept.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// What one failure restarts: Replica (the failed one) or Job (every replica, as one counted attempt). Unset: Job where
	// the replicas are one collective (PyTorch without elastic, TensorFlow without ps), else Replica. Of elastic PyTorch
	// it is Job for a failure that ends torchrun's rendezvous: of the leader, or with an exit code of the replica's own
	// (below 128).
	//
	// +optional
	RestartScope RestartScope `json:"restartScope,omitempty"`
}
