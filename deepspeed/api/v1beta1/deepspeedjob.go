package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Kind is the kind of a DeepSpeedJob.
const Kind = "DeepSpeedJob"

// DeepSpeedJob runs distributed training with DeepSpeed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deepspeedjobs,shortName=dsjob,categories=training
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) + size('worker') + size(string([0, (self.spec.?elastic.?enabled.orValue(false) ? self.spec.elastic.?maxReplicas.orValue(1) : self.spec.worker.?replicas.orValue(1)) - 1].max())) + 2 <= 63",message="metadata.name is too long: the pods are named <name>-worker-<index>, which must fit into 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.worker == oldSelf.spec.worker",message="spec.worker can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.worker"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.config) == has(oldSelf.spec.config) && (!has(self.spec.config) || self.spec.config == oldSelf.spec.config))",message="spec.config can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec"
type DeepSpeedJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec DeepSpeedJobSpec `json:"spec"`

	// The most recently observed status of the job. It can lag behind the actual state by a few seconds.
	//
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status DeepSpeedJobStatus `json:"status,omitempty"`
}

// DeepSpeedJobList contains a list of DeepSpeedJob.
//
// +kubebuilder:object:root=true
type DeepSpeedJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeepSpeedJob `json:"items"`
}

// DeepSpeedJobSpec is the desired state of a DeepSpeedJob.
//
// runMode.pause.enabled, runPolicy and elastic.expectedReplicas can be changed at any time. worker and config can be
// changed only while the job is paused. All other fields cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.?enabled.orValue(false) || has(self.config) && (has(self.config.customCommand) && size(self.config.customCommand) > 0 || has(self.config.run) && (size(self.config.run.?python.orValue([])) > 0 || size(self.config.run.?module.orValue([])) > 0 || size(self.config.run.?exec.orValue([])) > 0))",message="one of config.run.python, config.run.module and config.run.exec is required, unless config.customCommand is set or the job is in debug mode",fieldPath=".config"
// +kubebuilder:validation:XValidation:rule="has(self.config) && has(self.config.customCommand) && size(self.config.customCommand) > 0 || self.?runMode.?debug.?enabled.orValue(false) || (self.?elastic.?enabled.orValue(false) ? self.?elastic.?maxReplicas.orValue(1) : self.worker.?replicas.orValue(1)) <= 1024",message="the launcher of DeepSpeed starts at most 1024 workers: use fewer workers, or config.customCommand",fieldPath=".worker"
// +kubebuilder:validation:XValidation:rule="!self.?elastic.?enabled.orValue(false) || self.?config.?localRank.orValue(true)",message="config.localRank cannot be false with elastic training, whose launcher always passes the local rank",fieldPath=".config"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, d.type == 'worker')",message="runMode.debug.replicaSpecs names a type other than worker, which is the only one",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, s.type == 'worker')",message="runMode.pause.resumeSpecs names a type other than worker, which is the only one",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) == oldSelf.?elastic.?enabled.orValue(false)",message="elastic.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?minReplicas == oldSelf.?elastic.?minReplicas",message="elastic.minReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?maxReplicas == oldSelf.?elastic.?maxReplicas",message="elastic.maxReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) || !self.?elastic.?expectedReplicas.hasValue() || self.?elastic.?expectedReplicas == oldSelf.?elastic.?expectedReplicas",message="expectedReplicas can be changed only in an elastic job, where elastic.enabled is true: other jobs cannot be scaled",fieldPath=".elastic.expectedReplicas"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) || !has(self.runPolicy) || (!has(self.runPolicy.progressDeadlineSeconds) && !has(self.runPolicy.startupDeadlineSeconds))",message="progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled: without reports of the training, the controller cannot detect that it stalls",fieldPath=".runPolicy"
// +kubebuilder:validation:XValidation:rule="self.?progress.?enabled.orValue(false) == oldSelf.?progress.?enabled.orValue(false)",message="progress.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?managedBy.hasValue() == oldSelf.?managedBy.hasValue()",message="managedBy cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?disableCustomEnv.orValue(false) == oldSelf.?disableCustomEnv.orValue(false)",message="disableCustomEnv cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runPolicy.?restartScope.orValue('Job') != 'Rendezvous'",message="runPolicy.restartScope must be Replica or Job: Rendezvous is for PyTorchTrainingJobs with torchrun",fieldPath=".runPolicy"
type DeepSpeedJobSpec struct {
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

	// How long the job can be active, how often its replicas are restarted, and what is cleaned up. It can be changed at
	// any time.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

	// How the job is executed. If unset, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// Elastic training. The launcher is restarted whenever the set of workers changes.
	//
	// +optional
	Elastic *batchv1beta1.ElasticConfig `json:"elastic,omitempty"`

	// The training program and how to launch it. Required unless the job is in debug mode. It can be changed only while
	// the job is paused.
	//
	// +optional
	Config *Config `json:"config,omitempty"`

	// Set to true to hide the `env` variables of the main container from the training processes. Only the entrypoint of
	// the container, which runs the launcher on worker 0, then has them. Defaults to false: every training process has the
	// environment of its container, including variables from Secrets and ConfigMaps. It cannot be changed.
	//
	// +optional
	DisableCustomEnv bool `json:"disableCustomEnv,omitempty"`

	// The worker replicas. It can be changed only while the job is paused.
	Worker Worker `json:"worker"`
}

// AutotuneType determines whether and how the autotuner of DeepSpeed is used: none, run or tune.
//
// +kubebuilder:validation:Enum=none;run;tune
type AutotuneType string

// Values of AutotuneType. The names are those of the option deepspeed --autotuning.
const (
	// AutotuneNone does not use the autotuner.
	AutotuneNone AutotuneType = "none"
	// AutotuneRun finds the best configuration and then trains with it.
	AutotuneRun AutotuneType = "run"
	// AutotuneTune finds the best configuration and then ends.
	AutotuneTune AutotuneType = "tune"
)

// Config describes the training program and how to launch it. See https://www.deepspeed.ai/getting-started/.
type Config struct {
	// A shell command that launches the training on worker 0. If it is set, all other fields of config except
	// slotsPerWorker have no effect. The workers are listed in the hostfile /t9k/hostfile. As in every container command,
	// Kubernetes first replaces $(NAME) with the value of the container's variable NAME, and $$ with $. At most 65536
	// characters.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CustomCommand string `json:"customCommand,omitempty"`

	// The number of slots of each worker, which is the number of training processes that it runs. Usually this is its
	// number of GPUs. From 1 to 1024. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	SlotsPerWorker *int32 `json:"slotsPerWorker,omitempty"`

	// Whether the training program gets the argument --local_rank. Defaults to true. It cannot be false with elastic
	// training.
	//
	// +optional
	// +kubebuilder:default=true
	LocalRank *bool `json:"localRank,omitempty"`

	// Whether to use the autotuner of DeepSpeed: none, run (find the best configuration and train with it) or tune (only
	// find the best configuration). Defaults to none.
	//
	// +optional
	// +kubebuilder:default=none
	Autotune AutotuneType `json:"autotune,omitempty"`

	// Number of times in an attempt that worker 0 runs the launcher again, in the same pods, after a training process has
	// failed. At least 0. Defaults to 0. The next failure restarts all workers, and counts towards backoffLimit. With
	// spec.progress, so does a second failure without a new step in between. Workers that are lost use up nothing. It has
	// no effect with autotune and in debug mode, and if a command of the user launches the training: customCommand, or
	// command in runMode.pause.resumeSpecs.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// The training program. Required unless customCommand is set or the job is in debug mode.
	//
	// +optional
	Run *RunType `json:"run,omitempty"`

	// Additional arguments of deepspeed, at most 256 of 4096 characters each. They come directly before the training
	// program, after the arguments of the controller, and so override them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	OtherArgs []string `json:"otherArgs,omitempty"`
}

// RunType describes the training program. At most one of its fields can be non-empty.
//
// +kubebuilder:validation:XValidation:rule="(size(self.?python.orValue([])) > 0 ? 1 : 0) + (size(self.?module.orValue([])) > 0 ? 1 : 0) + (size(self.?exec.orValue([])) > 0 ? 1 : 0) <= 1",message="only one of python, module and exec is allowed"
type RunType struct {
	// A Python script and its arguments, which reach the script unchanged. At most 1024 items of 4096 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Python []string `json:"python,omitempty"`

	// A Python module and its arguments, which reach the module unchanged. At most 1024 items of 4096 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Module []string `json:"module,omitempty"`

	// An executable program and its arguments. At most 1024 items of 4096 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Exec []string `json:"exec,omitempty"`
}

// Worker describes the worker replicas.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'worker') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas according to the restartPolicy next to the template",fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || self.template.spec.containers.all(c, c.name != 'worker' && (c.name != self.template.spec.containers[0].name || self.template.spec.containers.exists(w, w.name == 'worker')) || (!has(c.volumeMounts) || c.volumeMounts.all(v, !(v.mountPath in ['/t9k/agent', '/t9k/ssh', '/t9k/hostfile'] || v.mountPath.startsWith('/t9k/agent/') || v.mountPath.startsWith('/t9k/ssh/') || v.mountPath.startsWith('/t9k/hostfile/')))) && (!has(c.volumeDevices) || c.volumeDevices.all(d, !(d.devicePath in ['/t9k/agent', '/t9k/ssh', '/t9k/hostfile'] || d.devicePath.startsWith('/t9k/agent/') || d.devicePath.startsWith('/t9k/ssh/') || d.devicePath.startsWith('/t9k/hostfile/')))))",message="volumeMounts and volumeDevices of the main container cannot use the paths /t9k/agent, /t9k/ssh and /t9k/hostfile or paths below them: these paths are reserved",fieldPath=".template.spec.containers"
type Worker struct {
	// The number of workers, from 0 to 2000. Defaults to 1. It has no effect in an elastic job. More than 1024 workers
	// need config.customCommand, even in an elastic job.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	Replicas *int32 `json:"replicas,omitempty"`

	// Template of the pod of each worker. The main container is the container named `worker`, else the first one. Its
	// image must contain DeepSpeed and pdsh. Its command and args are ignored, because config defines the training
	// program. The controller overrides hostname, subdomain and its own labels. It always sets restartPolicy to Never,
	// because it restarts replicas itself. The main container cannot have restartPolicy or restartPolicyRules. It cannot
	// have volumeMounts or volumeDevices at or below /t9k/agent, /t9k/ssh and /t9k/hostfile.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a worker is restarted after it ended: Always, OnFailure, Never or ExitCode. With Never, a worker whose pod is
	// evicted (kubectl drain), preempted or lost with its node has failed, and is not restarted. If somebody deletes its
	// pod, it is replaced, whatever the policy is. Defaults to OnFailure.
	//
	// +optional
	// +kubebuilder:default=OnFailure
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// DeepSpeedJobStatus is the observed state of a DeepSpeedJob.
type DeepSpeedJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`
}
