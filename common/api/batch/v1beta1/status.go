package v1beta1

import (
	"iter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// JobPhaseSucceeded: the leader succeeded, and no pod of the job runs. With cleanUpPolicy None, the phase does not
	// wait for the pods. It is final.
	JobPhaseSucceeded JobPhase = "Succeeded"
	// JobPhaseFailed: the job failed, and no pod of the job runs. With cleanUpPolicy None, the phase does not wait for
	// the pods. It is final.
	JobPhaseFailed JobPhase = "Failed"
	// JobPhaseUnknown: the state of the leader cannot be obtained. No job has this phase, because Kubernetes no longer
	// sets the phase Unknown of a pod. A job whose node does not respond stays Running.
	JobPhaseUnknown JobPhase = "Unknown"
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
	// restarts after a preemption, an eviction, the loss of a node, a fault of a device, the deletion of a pod, or a
	// failure before any container started. Unset: none.
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
	// Succeeded and Failed are final. After it is decided how the job ends, the phase does not change until no pod of
	// the job runs. During that time, the field reason shows how the job ends.
	//
	// +optional
	Phase JobPhase `json:"phase,omitempty"`

	// The reason of the condition that explains the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// When the controller started the job, to within a few seconds. A pause clears this time, and so does an eviction by
	// Kueue. It is set again when the job is resumed or admitted.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// The defaults of spec.runPolicy that apply to this job. A field that is set in the spec takes precedence. The
	// controller records the defaults when the job starts, so that another version of the controller with other defaults
	// does not change a job that has started. A pause removes the defaults, and they are recorded again when the job is
	// resumed. If an earlier version of the controller has started the job, they are recorded with the next change of
	// the status. Unset: the defaults of the controller apply.
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
	// a preemption in Kueue, or because a ResourceQuota had room for only some of the replicas. Evictions do not count
	// towards runPolicy.backoffLimit.
	//
	// +optional
	Evictions int32 `json:"evictions,omitempty"`

	// How far the training is, as it reports. It is kept over restarts, pauses and the end of the job. While nothing else
	// changes, it is updated at most every 30 seconds, and less often if many jobs report. Unset until the first report.
	//
	// +optional
	Progress *ProgressStatus `json:"progress,omitempty"`

	// The restarts in place of the job: the launcher has started the processes again while the pods stayed. They count
	// towards maxRestarts, which is in torchrunConfig or in the config of a DeepSpeedJob, and not towards
	// runPolicy.backoffLimit. While nothing else changes, this field is updated at most every 30 seconds, together with
	// progress. Unset if there was none. Also unset if torchrun counts by itself (see torchrunConfig.maxRestarts), in
	// debug mode, and if the controller cannot read the number.
	//
	// +optional
	RestartsInPlace *RestartsInPlace `json:"restartsInPlace,omitempty"`

	// Which data is omitted from tasks and messages, and where to find that data. Data is omitted if the status would
	// otherwise be too large for the API server. Empty if nothing is omitted.
	//
	// +optional
	Omitted string `json:"omitted,omitempty"`

	// The nodes that new pods of the job avoid, the oldest first. A node is added when replicas have failed on it twice
	// because the node was lost, or because its devices were unhealthy or had a taint. Only failures in status.failures
	// count. At most 16. If another node is added, the oldest is removed. Empty if runPolicy.badNodePolicy is Ignore, if
	// the templates set nodeName, if Kueue assigns nodes to the pods (topology-aware scheduling), and if an
	// administrator has disabled the feature. Not updated while the job is paused, and after it has finished.
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
// finish when none of its pods runs any longer. With cleanUpPolicy None, it does not wait for its pods.
func (s *JobStatus) Decided() bool {
	return s.Finished() || meta.IsStatusConditionTrue(s.Conditions, ConditionSuccessCriteriaMet) ||
		meta.IsStatusConditionTrue(s.Conditions, ConditionFailureTarget)
}

// EachReplica returns the replicas of all tasks, in order.
func (s *JobStatus) EachReplica() iter.Seq[*ReplicaStatus] {
	return func(yield func(*ReplicaStatus) bool) {
		for _, task := range s.Tasks {
			for i := range task.Replicas {
				if !yield(&task.Replicas[i]) {
					return
				}
			}
		}
	}
}
