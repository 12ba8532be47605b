package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Kind of a PyTorchTrainingJob.
const Kind = "PyTorchTrainingJob"

// PyTorchTrainingJob is the Schema for the pytorchtrainingjobs API. It runs a distributed PyTorch training.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=pytorchtrainingjobs,shortName=ptjob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.elastic.expectedReplicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service is named like it: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit"
// +kubebuilder:validation:XValidation:rule="self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.type) + size(string([0, (self.spec.?elastic.?enabled.orValue(false) && self.spec.?torchrunConfig.?enabled.orValue(false) ? self.spec.elastic.?maxReplicas.orValue(1) : r.?replicas.orValue(1)) - 1].max())) + 2 <= 63)",message="metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.replicaSpecs == oldSelf.spec.replicaSpecs",message="spec.replicaSpecs can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.replicaSpecs"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.torchrunConfig) == has(oldSelf.spec.torchrunConfig) && (!has(self.spec.torchrunConfig) || self.spec.torchrunConfig == oldSelf.spec.torchrunConfig))",message="spec.torchrunConfig can be changed only while the job is paused: wait for its condition Paused"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.tensorboardSpec) == has(oldSelf.spec.tensorboardSpec) && (!has(self.spec.tensorboardSpec) || self.spec.tensorboardSpec == oldSelf.spec.tensorboardSpec))",message="spec.tensorboardSpec can be changed only while the job is paused: wait for its condition Paused"
type PyTorchTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec PyTorchTrainingJobSpec `json:"spec"`

	// The most recently observed status of the job. It may lag behind what is true by some seconds.
	//
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status PyTorchTrainingJobStatus `json:"status,omitempty"`
}

// PyTorchTrainingJobList contains a list of PyTorchTrainingJob.
//
// +kubebuilder:object:root=true
type PyTorchTrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PyTorchTrainingJob `json:"items"`
}

// PyTorchTrainingJobSpec outlines the intended configuration and execution parameters of a PyTorchTrainingJob.
//
// Always mutable: runMode.pause.enabled, runPolicy, elastic.expectedReplicas. Mutable while the job is paused:
// replicaSpecs but for their types, torchrunConfig, tensorboardSpec. Everything else never changes.
//
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.?replicas.orValue(1)).sum() <= 2000",message="at most 2000 replicas in all are allowed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!(self.?elastic.?enabled.orValue(false) && self.?torchrunConfig.?enabled.orValue(false)) || self.torchrunConfig.?maxRestarts.orValue(0) > 0",message="torchrunConfig.maxRestarts must be at least 1 with elastic training: torchrun restarts its processes whenever the number of replicas changes",fieldPath=".torchrunConfig"
// +kubebuilder:validation:XValidation:rule="!(self.?elastic.?enabled.orValue(false) && self.?torchrunConfig.?enabled.orValue(false)) || self.replicaSpecs.exists(r, r.type != 'master')",message="elastic training needs a type other than master, which always has one replica",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, self.replicaSpecs.exists(r, r.type == d.type))",message="runMode.debug.replicaSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, self.replicaSpecs.exists(r, r.type == s.type))",message="runMode.pause.resumeSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.type) == oldSelf.replicaSpecs.map(r, r.type)",message="the types of replicaSpecs cannot be changed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) == oldSelf.?elastic.?enabled.orValue(false)",message="elastic.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?minReplicas == oldSelf.?elastic.?minReplicas",message="elastic.minReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?maxReplicas == oldSelf.?elastic.?maxReplicas",message="elastic.maxReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) && self.?torchrunConfig.?enabled.orValue(false) || !self.?elastic.?expectedReplicas.hasValue() || self.?elastic.?expectedReplicas == oldSelf.?elastic.?expectedReplicas",message="expectedReplicas can be changed only in an elastic job, where elastic.enabled and torchrunConfig.enabled are true: another job cannot be scaled",fieldPath=".elastic.expectedReplicas"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
type PyTorchTrainingJobSpec struct {
	// The replicas of the PyTorch cluster, from 1 to 32 types with at most 2000 replicas in all. Index 0 of type `master`,
	// or of the first type if there is no master, is the leader: it has rank 0 and its success is the job's. Ranks follow
	// the order of this list, the leader's type first. The types cannot be changed; the rest only while the job is paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReplicaSpecs []ReplicaSpec `json:"replicaSpecs"`

	// How to launch an elastic training. Elastic training is effective only with torchrun; without it the job runs its
	// plain replicas.
	//
	// +optional
	Elastic *batchv1beta1.ElasticConfig `json:"elastic,omitempty"`

	// Whether and how to use torchrun to launch the training processes. It can be changed only while the job is paused.
	//
	// +optional
	TorchrunConfig *TorchrunConfig `json:"torchrunConfig,omitempty"`

	// Job's execution behavior. If omitted, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// Execution policy governing how long the job may be active, how often it is retried and what is cleaned up.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

	// If specified, the controller creates a TensorBoard that shows the training logs. It can be changed only while the
	// job is paused.
	//
	// +optional
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec `json:"tensorboardSpec,omitempty"`

	// The scheduler that allocates resources to the replicas. Defaults to the cluster's default scheduler. It cannot be
	// changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`
}

// ReplicaSpec is a description of the replicas of one type.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'pytorch') + self.template.spec.containers.filter(c, c.name == 'python') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas, as restartPolicy beside the template says",fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self.type).hasValue()",message="type must be a DNS-1123 label: lower case letters, digits and '-', beginning and ending with a letter or digit",fieldPath=".type"
type ReplicaSpec struct {
	// Type of the replicas: a DNS label such as master or worker, unique in the job. Pods are named <job>-<type>-<index>.
	// At most 63 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// The desired number of replicas of this type. At least 0. Defaults to 1. In an elastic job it only serves as the
	// default of scalingWeight.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Share of this type in the replicas of an elastic job. At least 0. Unset: the value of replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ScalingWeight *int32 `json:"scalingWeight,omitempty"`

	// The pod that is created for each replica. The container named `pytorch`, else `python`, else the first one is the
	// main container, whose exit is the replica's outcome. restartPolicy is always set to Never, since the controller
	// decides whether a replica is restarted; hostname, subdomain and the labels of the controller are overridden too.
	// The main container cannot have restartPolicy or restartPolicyRules of its own.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a replica of this type that ended is restarted: Always, OnFailure, Never or ExitCode. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// TorchrunConfig describes how to launch the training with torchrun.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rdzvBackend) || self.rdzvBackend == 'c10d' || (has(self.extraOptions) && self.extraOptions.exists(o, o.startsWith('--rdzv_endpoint') || o.startsWith('--rdzv-endpoint')))",message="rdzvBackend other than c10d needs an endpoint of your own: add --rdzv_endpoint=<host>:<port> to extraOptions",fieldPath=".rdzvBackend"
type TorchrunConfig struct {
	// Set true to launch the training with torchrun. The command of the main container is then `torchrun <flags>` and its
	// args name the script with its arguments; the command of the template is ignored. Defaults to false.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// How often torchrun restarts the processes of a replica by itself. At least 0, and at least 1 with elastic training.
	// Unset: torchrun's default, 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// Number of processes to start on every replica: an integer, or gpu, cpu or auto. Unset: torchrun's default, 1.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]*|gpu|cpu|auto)$')",message="procPerNode must be a positive integer, gpu, cpu or auto"
	ProcPerNode string `json:"procPerNode,omitempty"`

	// Rendezvous backend. Defaults to c10d, which the leader hosts. Any other needs --rdzv_endpoint among extraOptions.
	// At most 64 characters.
	//
	// +optional
	// +kubebuilder:default=c10d
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	RdzvBackend string `json:"rdzvBackend,omitempty"`

	// Extra options for torchrun, at most 64 of 1024 characters. They come last, so that they override those of
	// the controller.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	ExtraOptions []string `json:"extraOptions,omitempty"`
}

// PyTorchTrainingJobStatus defines the observed state of a PyTorchTrainingJob.
type PyTorchTrainingJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`

	// The status of the TensorBoard that spec.tensorboardSpec asks for.
	//
	// +optional
	TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
}
