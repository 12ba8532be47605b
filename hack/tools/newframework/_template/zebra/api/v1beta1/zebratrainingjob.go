package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Kind is the kind of a ZebraTrainingJob.
const Kind = "ZebraTrainingJob"

// ZebraTrainingJob runs distributed training.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=zebratrainingjobs,shortName=zebrajob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.summary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="LocalQueue",type=string,JSONPath=`.metadata.labels.kueue\.x-k8s\.io/queue-name`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Running")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service has the same name: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.type) + size(string([0, r.?replicas.orValue(1) - 1].max())) + 2 <= 63)",message="metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.replicaSpecs == oldSelf.spec.replicaSpecs",message="spec.replicaSpecs can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.replicaSpecs"
type ZebraTrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec ZebraTrainingJobSpec `json:"spec"`

	// The most recently observed status of the job. It can lag behind the actual state by a few seconds.
	//
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status ZebraTrainingJobStatus `json:"status,omitempty"`
}

// ZebraTrainingJobList contains a list of ZebraTrainingJob.
//
// +kubebuilder:object:root=true
type ZebraTrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ZebraTrainingJob `json:"items"`
}

// ZebraTrainingJobSpec is the desired state of a ZebraTrainingJob.
//
// runMode.pause.enabled and runPolicy can be changed at any time. replicaSpecs (except their types) can be changed only
// while the job is paused. All other fields cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.?replicas.orValue(1)).sum() <= 2000",message="at most 2000 replicas in total are allowed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, self.replicaSpecs.exists(r, r.type == d.type))",message="runMode.debug.replicaSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, self.replicaSpecs.exists(r, r.type == s.type))",message="runMode.pause.resumeSpecs names a type that is not among replicaSpecs",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.replicaSpecs.map(r, r.type) == oldSelf.replicaSpecs.map(r, r.type)",message="the types of replicaSpecs cannot be changed",fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) || !has(self.runPolicy) || (!has(self.runPolicy.progressDeadlineSeconds) && !has(self.runPolicy.startupDeadlineSeconds))",message="progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled: without reports of the training, the controller cannot detect that it stalls",fieldPath=".runPolicy"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) == oldSelf.?progress.?enabled.orValue(false)",message="progress.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?managedBy.hasValue() == oldSelf.?managedBy.hasValue()",message="managedBy cannot be changed"
type ZebraTrainingJobSpec struct {
	// The replicas of the job, from 1 to 32 types with at most 2000 replicas in total. The leader is index 0 of the first
	// type with replicas. The leader has rank 0, and the job succeeds when the leader succeeds. Ranks follow the order of
	// this list. The types cannot be changed. The other fields can be changed only while the job is paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReplicaSpecs []ReplicaSpec `json:"replicaSpecs"`

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
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'zebra') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas according to the restartPolicy next to the template",fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self.type).hasValue()",message="type must be a DNS-1123 label: lower case letters, digits and '-', beginning and ending with a letter or digit",fieldPath=".type"
type ReplicaSpec struct {
	// Type of the replicas: a DNS label such as worker, which is unique within the job. At most 63 characters. Pods are
	// named <job>-<type>-<index>, and this name can have at most 63 characters, too.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// The desired number of replicas of this type. At least 0. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Template of the pod of each replica. The main container is the container named `zebra`, else the first one. A
	// replica succeeds or fails when its main container does. The controller overrides hostname, subdomain and its own
	// labels. It always sets restartPolicy to Never, because it restarts replicas itself. The main container cannot have
	// restartPolicy or restartPolicyRules.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a replica of this type is restarted after it ended: Always, OnFailure, Never or ExitCode. With Never, a replica
	// whose pod is evicted (kubectl drain), preempted or lost with its node has failed, and is not restarted. If somebody
	// deletes its pod, it is replaced, whatever the policy is. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// ZebraTrainingJobStatus is the observed state of a ZebraTrainingJob.
type ZebraTrainingJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`
}
