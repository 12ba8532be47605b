package v1beta1

// RestartPolicy determines when the controller restarts a replica that ended. A restart creates a new pod. The pods
// themselves always have restartPolicy Never.
//
// +kubebuilder:validation:Enum=Always;OnFailure;Never;ExitCode
type RestartPolicy string

const (
	// RestartPolicyAlways restarts a replica whenever it ends, even if it succeeded. The job still ends when the leader
	// succeeds.
	RestartPolicyAlways RestartPolicy = "Always"
	// RestartPolicyOnFailure restarts a replica that failed.
	RestartPolicyOnFailure RestartPolicy = "OnFailure"
	// RestartPolicyNever never restarts a replica that ended, not even after a disruption, such as an eviction by
	// kubectl drain. However, if somebody deletes the pod of a replica, the controller creates another pod, because the
	// deletion is a request for one.
	RestartPolicyNever RestartPolicy = "Never"
	// RestartPolicyExitCode restarts a replica after exit code 130, 137, 138 or 143, after a disruption, and after a
	// failure without an exit code. If torchrun or DeepSpeed reports which process failed first, it is enough that this
	// process has one of these exit codes. If a signal ended a process, its exit code is 128 plus the number of the
	// signal. Any other failure is permanent.
	RestartPolicyExitCode RestartPolicy = "ExitCode"
)

// CleanUpPolicy determines which pods are deleted once it is decided how the job ends.
//
// +kubebuilder:validation:Enum=All;Unfinished;None
type CleanUpPolicy string

const (
	// CleanUpPolicyAll deletes every pod.
	CleanUpPolicyAll CleanUpPolicy = "All"
	// CleanUpPolicyUnfinished deletes the pods that still hold resources. Pods that have ended are kept, with their logs.
	CleanUpPolicyUnfinished CleanUpPolicy = "Unfinished"
	// CleanUpPolicyNone deletes no pod.
	CleanUpPolicyNone CleanUpPolicy = "None"
)

// RestartScope determines which replicas are restarted after a failure.
//
// +kubebuilder:validation:Enum=Replica;Job;Rendezvous
type RestartScope string

const (
	// RestartScopeReplica restarts only the replica that failed. The leader alone decides how the job ends.
	RestartScopeReplica RestartScope = "Replica"
	// RestartScopeJob restarts all replicas, which counts as one restart. A permanent failure of any replica fails the
	// job.
	RestartScopeJob RestartScope = "Job"
	// RestartScopeRendezvous restarts all replicas after a failure that ends the rendezvous of torchrun, as
	// RestartScopeJob does. After any other failure, it restarts only the replica that failed, as RestartScopeReplica
	// does, and the others wait for it in the rendezvous. Only PyTorchTrainingJobs with torchrun can have it.
	RestartScopeRendezvous RestartScope = "Rendezvous"
)

// BadNodePolicy determines whether new pods of a job avoid nodes on which replicas have failed because of the node.
//
// +kubebuilder:validation:Enum=Avoid;Ignore
type BadNodePolicy string

const (
	// BadNodePolicyAvoid makes new pods avoid a node on which replicas have failed twice. It is the default.
	BadNodePolicyAvoid BadNodePolicy = "Avoid"
	// BadNodePolicyIgnore lets new pods run on any node.
	BadNodePolicyIgnore BadNodePolicy = "Ignore"
)

const (
	// DefaultBackoffLimit is the default of RunPolicy.BackoffLimit.
	DefaultBackoffLimit int32 = 3
	// DefaultCleanUpPolicy is the default of RunPolicy.CleanUpPolicy.
	DefaultCleanUpPolicy = CleanUpPolicyUnfinished
)

// RunPolicy encapsulates the runtime policies of a distributed training job: how long it can be active, how often its
// replicas are restarted, and what is cleaned up. It can be changed at any time. A change does not affect how the job
// ends if that is already decided.
//
// +kubebuilder:validation:XValidation:rule="!has(self.progressPolicy) || has(self.progressDeadlineSeconds) || has(self.startupDeadlineSeconds)",message="progressPolicy has no effect without a deadline: set progressDeadlineSeconds or startupDeadlineSeconds",fieldPath=".progressPolicy"
type RunPolicy struct {
	// Duration in seconds, relative to status.startTime, that the job can be active before it fails with the reason
	// DeadlineExceeded. A pause and an eviction by Kueue clear status.startTime; a resume and an admission by Kueue set
	// it. So waiting for a Queue, a node or an image counts, and waiting for Kueue does not. At least 1 and at most
	// 2147483647 (68 years). If unset, there is no limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// Number of restarts before the job fails. At least 0. Defaults to 3. A restart does not count if it follows a
	// disruption (such as preemption, eviction, node shutdown or the loss of a node), an unhealthy device, the deletion
	// of a pod, a failure before any container started, or a success (restartPolicy Always). A restart after an eviction
	// counts if the pod exceeded its own limit of ephemeral storage.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// Which pods are deleted once it is decided how the job ends: All, Unfinished or None. Unfinished deletes the pods
	// in which any container still runs, including a sidecar. With None, pods that still run keep their resources, and
	// the job finishes without waiting for them. Defaults to Unfinished.
	//
	// +optional
	// +kubebuilder:default=Unfinished
	CleanUpPolicy CleanUpPolicy `json:"cleanUpPolicy,omitempty"`

	// How long the other replicas can take to end by themselves after the leader has succeeded, in seconds. After this
	// time, cleanUpPolicy applies. From 0 to 86400 (a day). Defaults to the value of the controller's flag --peer-grace,
	// which defaults to 30 s. For evaluators of a TensorFlowTrainingJob, the default is at least 600, because they
	// evaluate the last checkpoint in this time. The field has no effect on replicas that only serve others, such as
	// parameter servers: they end after all other replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PeerGracePeriodSeconds *int32 `json:"peerGracePeriodSeconds,omitempty"`

	// Time in seconds after which a finished job is deleted, together with all objects that it owns. At least 0. With 0,
	// the job is deleted immediately after it finishes. If unset, the job is not deleted automatically.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Time in seconds after which a running job is stalled if its training reports no other step, or no other percentage
	// if its reports contain no steps. The time begins when the job runs, and again with each new step or percentage.
	// The training can announce that it will report nothing for a longer time. A job that has reported 100 percent is
	// not stalled. At least 60 and at most 2147483647. It must be longer than an evaluation and a checkpoint take
	// together, because most programs report nothing in that time. While the processes of the training start again in
	// their pods, startupDeadlineSeconds applies instead. If unset, the job is never stalled after its first report,
	// except while its processes start again. Requires progress.enabled. It has no effect in debug mode.
	//
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2147483647
	ProgressDeadlineSeconds *int64 `json:"progressDeadlineSeconds,omitempty"`

	// Time in seconds after which a running job is stalled if its training has reported nothing since the job began to
	// run, since all its replicas were restarted, or since its processes started again in their pods. At least 60 and at
	// most 2147483647. If unset, there is no limit. Requires progress.enabled. It has no effect in debug mode.
	//
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2147483647
	StartupDeadlineSeconds *int64 `json:"startupDeadlineSeconds,omitempty"`

	// The reaction to a stall, see progressDeadlineSeconds and startupDeadlineSeconds: Notify or Restart. Notify sets the
	// condition Stalled and emits an event. Restart also restarts all replicas together, whatever restartPolicy and
	// restartScope are. This counts towards backoffLimit. Defaults to Notify. Requires one of the deadlines.
	//
	// +optional
	ProgressPolicy ProgressPolicy `json:"progressPolicy,omitempty"`

	// Whether new pods of the job avoid a node on which replicas have failed twice because of the node: Avoid or Ignore.
	// Such a failure has the reason NodeLost, DeviceUnhealthy or DeviceTainted. See status.avoidedNodes. Defaults to
	// Avoid.
	//
	// +optional
	BadNodePolicy BadNodePolicy `json:"badNodePolicy,omitempty"`

	// Which replicas are restarted after a failure: Replica (only the replica that failed), Job (all replicas, which
	// counts as one restart) or Rendezvous. Rendezvous means Job for a failure that ends the rendezvous of torchrun: a
	// failure of the leader, or a replica that exits with a code below 128. It means Replica for any other failure, such
	// as an eviction: then the other replicas wait in their pods for the new one. It needs a PyTorchTrainingJob whose
	// torchrunConfig is enabled and has the rdzvBackend c10d. Defaults to Rendezvous for elastic PyTorch training, to Job
	// if the replicas are one collective otherwise (PyTorch and DeepSpeed without elastic training, and TensorFlow
	// without parameter servers), and to Replica in all other cases. status.defaults shows the default that holds for a
	// job that has started.
	//
	// +optional
	RestartScope RestartScope `json:"restartScope,omitempty"`
}
