package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Kind is the kind of a PyTorchTrainingJob.
const Kind = "PyTorchTrainingJob"

// PyTorchTrainingJob runs distributed training with PyTorch.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=pytorchtrainingjobs,shortName=ptjob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.elastic.expectedReplicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.summary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Disruptions",type=integer,JSONPath=`.status.disruptions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="InPlace",type=integer,JSONPath=`.status.restartsInPlace.count`,priority=1
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="LocalQueue",type=string,JSONPath=`.metadata.labels.kueue\.x-k8s\.io/queue-name`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Running")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service has the same name: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.type) + size(string([0, (self.spec.?elastic.?enabled.orValue(false) && self.spec.?torchrunConfig.?enabled.orValue(false) ? self.spec.elastic.?maxReplicas.orValue(1) : r.?replicas.orValue(1)) - 1].max())) + 2 <= 63)",message="metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.replicaSpecs == oldSelf.spec.replicaSpecs",message="spec.replicaSpecs can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.replicaSpecs"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.torchrunConfig) == has(oldSelf.spec.torchrunConfig) && (!has(self.spec.torchrunConfig) || self.spec.torchrunConfig == oldSelf.spec.torchrunConfig))",message="spec.torchrunConfig can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.tensorboardSpec) == has(oldSelf.spec.tensorboardSpec) && (!has(self.spec.tensorboardSpec) || self.spec.tensorboardSpec == oldSelf.spec.tensorboardSpec))",message="spec.tensorboardSpec can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec"
type PyTorchTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec PyTorchTrainingJobSpec `json:"spec"`

	// The most recently observed status of the job. It can lag behind the actual state by a few seconds.
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

// PyTorchTrainingJobSpec is the desired state of a PyTorchTrainingJob.
//
// runMode.pause.enabled, runPolicy and elastic.expectedReplicas can be changed at any time. replicaSpecs (except their
// types), torchrunConfig and tensorboardSpec can be changed only while the job is paused. All other fields cannot be
// changed.
//
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.?replicas.orValue(1)).sum() <= 2000",message="at most 2000 replicas in total are allowed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?runPolicy.?restartScope.orValue('Job') != 'Rendezvous' || self.?torchrunConfig.?enabled.orValue(false) && self.torchrunConfig.?rdzvBackend.orValue('c10d') == 'c10d'",message="runPolicy.restartScope Rendezvous needs torchrun: set torchrunConfig.enabled to true, and rdzvBackend to c10d",fieldPath=".runPolicy"
// +kubebuilder:validation:XValidation:rule="!(self.?elastic.?enabled.orValue(false) && self.?torchrunConfig.?enabled.orValue(false)) || self.replicaSpecs.exists(r, r.type != 'master')",message="elastic training needs a type other than master, which always has one replica",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, self.replicaSpecs.exists(r, r.type == d.type))",message="runMode.debug.replicaSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, self.replicaSpecs.exists(r, r.type == s.type))",message="runMode.pause.resumeSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.type) == oldSelf.replicaSpecs.map(r, r.type)",message="the types of replicaSpecs cannot be changed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) == oldSelf.?elastic.?enabled.orValue(false)",message="elastic.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?minReplicas == oldSelf.?elastic.?minReplicas",message="elastic.minReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?maxReplicas == oldSelf.?elastic.?maxReplicas",message="elastic.maxReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) && self.?torchrunConfig.?enabled.orValue(false) || !self.?elastic.?expectedReplicas.hasValue() || self.?elastic.?expectedReplicas == oldSelf.?elastic.?expectedReplicas",message="expectedReplicas can be changed only in an elastic job, where elastic.enabled and torchrunConfig.enabled are true: other jobs cannot be scaled",fieldPath=".elastic.expectedReplicas"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) || !has(self.runPolicy) || (!has(self.runPolicy.progressDeadlineSeconds) && !has(self.runPolicy.startupDeadlineSeconds))",message="progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled: without reports of the training, the controller cannot detect that it stalls",fieldPath=".runPolicy"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) == oldSelf.?progress.?enabled.orValue(false)",message="progress.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?managedBy.hasValue() == oldSelf.?managedBy.hasValue()",message="managedBy cannot be changed"
type PyTorchTrainingJobSpec struct {
	// The replicas of the job, from 1 to 32 types with at most 2000 replicas in total. The leader is index 0 of type
	// `master`, or of the first type with replicas if there is no master. The leader has rank 0, and the job succeeds when
	// the leader succeeds. Ranks follow the order of this list, but the type of the leader comes first. The types cannot
	// be changed. The other fields can be changed only while the job is paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReplicaSpecs []ReplicaSpec `json:"replicaSpecs"`

	// Elastic training, which has an effect only with torchrun. Without torchrun, the job has the replicas of
	// replicaSpecs.
	//
	// +optional
	Elastic *batchv1beta1.ElasticConfig `json:"elastic,omitempty"`

	// Whether and how the training processes are launched with torchrun. It can be changed only while the job is paused.
	//
	// +optional
	TorchrunConfig *TorchrunConfig `json:"torchrunConfig,omitempty"`

	// How the job is executed. If unset, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// How long the job can be active, how often its replicas are restarted, and what is cleaned up. It can be changed at
	// any time.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

	// If specified, the controller creates a TensorBoard that shows the training logs. It can be changed only while the
	// job is paused.
	//
	// +optional
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec `json:"tensorboardSpec,omitempty"`

	// The scheduler that allocates resources to the replicas. If unset, the schedulerName of the pod template is used,
	// which defaults to the default scheduler of the cluster. It cannot be changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`

	// Whether the training reports its progress, which status.progress then shows. It cannot be changed.
	//
	// +optional
	Progress *batchv1beta1.ProgressSpec `json:"progress,omitempty"`

	// The controller that manages the job, as a domain-prefixed path of at most 63 characters. If unset, or
	// `batch.tensorstack.dev/job-controller`, it is the controller of this kind. With `kueue.x-k8s.io/multikueue`,
	// MultiKueue runs the job in another cluster. In this cluster, the job gets no pods, and only the admission by Kueue
	// and ttlSecondsAfterFinished apply to it. With any other value, the controller of this kind ignores the job. It
	// cannot be changed.
	//
	// +optional
	ManagedBy *batchv1beta1.ManagedBy `json:"managedBy,omitempty"`
}

// ReplicaSpec describes the replicas of one type.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'pytorch') + self.template.spec.containers.filter(c, c.name == 'python') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas according to the restartPolicy next to the template",fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self.type).hasValue()",message="type must be a DNS-1123 label: lower case letters, digits and '-', beginning and ending with a letter or digit",fieldPath=".type"
type ReplicaSpec struct {
	// Type of the replicas: a DNS label such as master or worker, which is unique within the job. At most 63 characters.
	// Pods are named <job>-<type>-<index>, and this name can have at most 63 characters, too.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// The desired number of replicas of this type. At least 0. Defaults to 1. In an elastic job, it is only used as the
	// default of scalingWeight.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Weight of this type when the replicas of an elastic job are distributed among the types. At least 0. Defaults to the
	// value of replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ScalingWeight *int32 `json:"scalingWeight,omitempty"`

	// Template of the pod of each replica. The main container is the container named `pytorch`, else the one named
	// `python`, else the first one. A replica succeeds or fails when its main container does. The controller overrides
	// hostname, subdomain and its own labels. It always sets restartPolicy to Never, because it restarts replicas itself.
	// The main container cannot have restartPolicy or restartPolicyRules.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a replica of this type is restarted after it ended: Always, OnFailure, Never or ExitCode. With Never, a replica
	// whose pod is evicted (kubectl drain), preempted or lost with its node has failed, and is not restarted. If somebody
	// deletes its pod, it is replaced, whatever the policy is. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// TorchrunConfig describes how to launch the training with torchrun.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rdzvBackend) || self.rdzvBackend == 'c10d' || (has(self.extraOptions) && self.extraOptions.exists(o, o.startsWith('--rdzv_endpoint') || o.startsWith('--rdzv-endpoint')))",message="an rdzvBackend other than c10d needs an endpoint: add --rdzv_endpoint=<host>:<port> to extraOptions",fieldPath=".rdzvBackend"
type TorchrunConfig struct {
	// Set to true to launch the training with torchrun. The command of the main container is then `torchrun <flags>`, and
	// the command of the template is ignored. The args of the template must be the script and its arguments. Defaults to
	// false.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Number of times in an attempt that torchrun starts all processes again in their pods after one of them has failed.
	// At least 0. Defaults to 0. The next failure restarts all replicas, and counts towards backoffLimit. With
	// spec.progress, so does a second failure without a new step in between. Replicas that are lost, leave or join use up
	// nothing. With rdzvBackend static, or with --max_restarts in extraOptions, it is only passed to torchrun, which
	// counts for each replica.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// Number of processes to start in each replica: a positive integer, or cpu, gpu, xpu, npu or auto for one process for
	// each device of this type. torchrun refuses a type that its version does not know. For another type, set the option
	// --nproc_per_node in extraOptions. At most 16 characters. If unset, torchrun's default of 1 is used.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]*|cpu|gpu|xpu|npu|auto)$')",message="procPerNode must be a positive integer, cpu, gpu, xpu, npu or auto"
	ProcPerNode string `json:"procPerNode,omitempty"`

	// Rendezvous backend of torchrun, from 1 to 64 characters. Defaults to c10d, which the leader hosts. Any other backend
	// requires the option --rdzv_endpoint in extraOptions.
	//
	// +optional
	// +kubebuilder:default=c10d
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	RdzvBackend string `json:"rdzvBackend,omitempty"`

	// Additional options of torchrun, at most 64 of 1024 characters each. They come after the options of the controller,
	// and so override them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	ExtraOptions []string `json:"extraOptions,omitempty"`
}

// PyTorchTrainingJobStatus is the observed state of a PyTorchTrainingJob.
type PyTorchTrainingJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`

	// The status of the TensorBoard that spec.tensorboardSpec describes. Unset if there is none.
	//
	// +optional
	TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
}
