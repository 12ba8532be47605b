package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Kind is the kind of a TensorFlowTrainingJob.
const Kind = "TensorFlowTrainingJob"

// TensorFlowTrainingJob runs distributed training with TensorFlow.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tensorflowtrainingjobs,shortName=tfjob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.summary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Disruptions",type=integer,JSONPath=`.status.disruptions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="LocalQueue",type=string,JSONPath=`.metadata.labels.kueue\.x-k8s\.io/queue-name`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Running")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service has the same name: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.type) + size(string([0, r.?replicas.orValue(1) - 1].max())) + 2 <= 63)",message="metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.replicaSpecs == oldSelf.spec.replicaSpecs",message="spec.replicaSpecs can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.replicaSpecs"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.tensorboardSpec) == has(oldSelf.spec.tensorboardSpec) && (!has(self.spec.tensorboardSpec) || self.spec.tensorboardSpec == oldSelf.spec.tensorboardSpec))",message="spec.tensorboardSpec can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec"
type TensorFlowTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec TensorFlowTrainingJobSpec `json:"spec"`

	// The most recently observed status of the job. It can lag behind the actual state by a few seconds.
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

// TensorFlowTrainingJobSpec is the desired state of a TensorFlowTrainingJob.
//
// runMode.pause.enabled and runPolicy can be changed at any time. replicaSpecs (except their types) and tensorboardSpec
// can be changed only while the job is paused. All other fields cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.?replicas.orValue(1)).sum() <= 2000",message="at most 2000 replicas in total are allowed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.all(r, r.type != 'chief' || r.?replicas.orValue(1) <= 1)",message="at most one chief is allowed, since it leads the job",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.exists(r, r.type in ['chief', 'worker'] && r.?replicas.orValue(1) > 0)",message="a replica of type chief or worker is required to lead the job",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, self.replicaSpecs.exists(r, r.type == d.type))",message="runMode.debug.replicaSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, self.replicaSpecs.exists(r, r.type == s.type))",message="runMode.pause.resumeSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.type) == oldSelf.replicaSpecs.map(r, r.type)",message="the types of replicaSpecs cannot be changed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) || !has(self.runPolicy) || (!has(self.runPolicy.progressDeadlineSeconds) && !has(self.runPolicy.startupDeadlineSeconds))",message="progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled: without reports of the training, the controller cannot detect that it stalls",fieldPath=".runPolicy"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) == oldSelf.?progress.?enabled.orValue(false)",message="progress.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?managedBy.hasValue() == oldSelf.?managedBy.hasValue()",message="managedBy cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runPolicy.?restartScope.orValue('Job') != 'Rendezvous'",message="runPolicy.restartScope must be Replica or Job: Rendezvous is for PyTorchTrainingJobs with torchrun",fieldPath=".runPolicy"
type TensorFlowTrainingJobSpec struct {
	// The replicas of the job, from 1 to 4 types with at most 2000 replicas in total. The chief, or worker 0 if there is
	// no chief, is the leader. The job succeeds when the leader succeeds. The types cannot be changed. The other fields
	// can be changed only while the job is paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	ReplicaSpecs []ReplicaSpec `json:"replicaSpecs"`

	// How the job is executed. If unset, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// If specified, the controller creates a TensorBoard that shows the training logs. It can be changed only while the
	// job is paused.
	//
	// +optional
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec `json:"tensorboardSpec,omitempty"`

	// How long the job can be active, how often its replicas are restarted, and what is cleaned up. It can be changed at
	// any time. restartScope defaults to Replica for a job with parameter servers, and to Job otherwise.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

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

// ReplicaType is the role of replicas in the TensorFlow cluster: chief, worker, ps or evaluator.
//
// +kubebuilder:validation:Enum=chief;worker;ps;evaluator
type ReplicaType string

// Replica types, named as in TF_CONFIG.
const (
	// ReplicaTypeChief coordinates the training. A job has at most one chief.
	ReplicaTypeChief ReplicaType = "chief"
	// ReplicaTypeWorker trains. If there is no chief, worker 0 also does the work of the chief.
	ReplicaTypeWorker ReplicaType = "worker"
	// ReplicaTypePS is a parameter server, which holds variables for the workers.
	ReplicaTypePS ReplicaType = "ps"
	// ReplicaTypeEvaluator evaluates checkpoints during the training. The other replicas do not communicate with it.
	ReplicaTypeEvaluator ReplicaType = "evaluator"
)

// ReplicaSpec describes the replicas of one type.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'tensorflow') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas according to the restartPolicy next to the template",fieldPath=".template.spec.containers"
type ReplicaSpec struct {
	// Type of the replicas: chief, worker, ps or evaluator, each at most once. Pods are named <job>-<type>-<index>.
	Type ReplicaType `json:"type"`

	// The desired number of replicas of this type. At least 0, and at most 1 for chief. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Template of the pod of each replica. The main container is the container named `tensorflow`, else the first one. A
	// replica succeeds or fails when its main container does. The replica listens on the port named `tfjob-port` of the
	// main container. If there is no such port, it listens on port 2222, or with hostNetwork on a port that the controller
	// chooses. The controller overrides hostname, subdomain and its own labels. It always sets restartPolicy to Never,
	// because it restarts replicas itself. The main container cannot have restartPolicy or restartPolicyRules.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a replica of this type is restarted after it ended: Always, OnFailure, Never or ExitCode. With Never, a replica
	// whose pod is evicted (kubectl drain), preempted or lost with its node has failed, and is not restarted. If somebody
	// deletes its pod, it is replaced, whatever the policy is. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// TensorFlowTrainingJobStatus is the observed state of a TensorFlowTrainingJob.
type TensorFlowTrainingJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`

	// The status of the TensorBoard that spec.tensorboardSpec describes. Unset if there is none.
	//
	// +optional
	TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
}
