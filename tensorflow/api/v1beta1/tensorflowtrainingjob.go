package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Kind of a TensorFlowTrainingJob.
const Kind = "TensorFlowTrainingJob"

// TensorFlowTrainingJob is the Schema for the TensorFlowTrainingJob API. It runs a distributed TensorFlow training.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tensorflowtrainingjobs,shortName=tfjob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service is named like it: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit"
// +kubebuilder:validation:XValidation:rule="self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.type) + size(string([0, r.?replicas.orValue(1) - 1].max())) + 2 <= 63)",message="metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.replicaSpecs == oldSelf.spec.replicaSpecs",message="spec.replicaSpecs can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.replicaSpecs"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.tensorboardSpec) == has(oldSelf.spec.tensorboardSpec) && (!has(self.spec.tensorboardSpec) || self.spec.tensorboardSpec == oldSelf.spec.tensorboardSpec))",message="spec.tensorboardSpec can be changed only while the job is paused: wait for its condition Paused"
type TensorFlowTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec TensorFlowTrainingJobSpec `json:"spec"`

	// The most recently observed status of the job. It may lag behind what is true by some seconds.
	//
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status TensorFlowTrainingJobStatus `json:"status,omitempty"`
}

// TensorFlowTrainingJobList contains a list of TensorFlowTrainingJob.
//
// +kubebuilder:object:root=true
type TensorFlowTrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TensorFlowTrainingJob `json:"items"`
}

// TensorFlowTrainingJobSpec outlines the intended configuration and execution parameters for a TensorFlowTrainingJob.
//
// Always mutable: runMode.pause.enabled, runPolicy. Mutable while the job is paused: replicaSpecs but for their types,
// tensorboardSpec. Everything else never changes.
//
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.?replicas.orValue(1)).sum() <= 2000",message="at most 2000 replicas in all are allowed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.all(r, r.type != 'chief' || r.?replicas.orValue(1) <= 1)",message="at most one chief is allowed: it leads",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.exists(r, r.type in ['chief', 'worker'] && r.?replicas.orValue(1) > 0)",message="a replica of type chief or worker is required: its success is the job's",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, self.replicaSpecs.exists(r, r.type == d.type))",message="runMode.debug.replicaSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, self.replicaSpecs.exists(r, r.type == s.type))",message="runMode.pause.resumeSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.type) == oldSelf.replicaSpecs.map(r, r.type)",message="the types of replicaSpecs cannot be changed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
type TensorFlowTrainingJobSpec struct {
	// The replicas of the TensorFlow cluster, at most 2000 in all. The chief, or worker 0 if there is no chief, is the
	// leader: its success is the job's. The types cannot be changed; the rest only while the job is paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	ReplicaSpecs []ReplicaSpec `json:"replicaSpecs"`

	// Job's execution behavior. If omitted, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// If specified, the controller creates a TensorBoard that shows the training logs. It can be changed only while the
	// job is paused.
	//
	// +optional
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec `json:"tensorboardSpec,omitempty"`

	// Execution policy governing how long the job may be active, how often it is retried and what is cleaned up.
	// restartScope defaults to Replica for a job with parameter servers, else to Job.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

	// The scheduler that allocates resources to the replicas. Defaults to the cluster's default scheduler. It cannot be
	// changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`
}

// ReplicaType is what the replicas are in the TensorFlow cluster: chief, worker, ps or evaluator.
//
// +kubebuilder:validation:Enum=chief;worker;ps;evaluator
type ReplicaType string

// The types of replicas, as TF_CONFIG names them.
const (
	// ReplicaTypeChief coordinates the training. There is at most one.
	ReplicaTypeChief ReplicaType = "chief"
	// ReplicaTypeWorker computes. Without a chief the first one does the chief's work too.
	ReplicaTypeWorker ReplicaType = "worker"
	// ReplicaTypePS holds variables for the workers: it is a parameter server.
	ReplicaTypePS ReplicaType = "ps"
	// ReplicaTypeEvaluator evaluates checkpoints beside the training. The others do not know of it.
	ReplicaTypeEvaluator ReplicaType = "evaluator"
)

// ReplicaSpec describes the replicas of one type.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'tensorflow') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas, as restartPolicy beside the template says",fieldPath=".template.spec.containers"
type ReplicaSpec struct {
	// Type of the replicas: chief, worker, ps or evaluator, each at most once. Pods are named <job>-<type>-<index>.
	Type ReplicaType `json:"type"`

	// The desired number of replicas of this type. At least 0, at most 1 for chief. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// The pod that is created for each replica. The container named `tensorflow`, else the first one is the main
	// container, whose exit is the replica's outcome; its port named `tfjob-port` is where the replica listens, by default
	// 2222, and with hostNetwork a port that is chosen for the replica. restartPolicy is always set to Never, since the
	// controller decides whether a replica is restarted; hostname, subdomain and the labels of the controller are
	// overridden too. The main container cannot have restartPolicy or restartPolicyRules of its own.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a replica of this type that ended is restarted: Always, OnFailure, Never or ExitCode. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// TensorFlowTrainingJobStatus defines the observed state of a TensorFlowTrainingJob.
type TensorFlowTrainingJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`

	// The status of the TensorBoard that spec.tensorboardSpec asks for.
	//
	// +optional
	TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
}
