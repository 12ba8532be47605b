package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Kind of a DeepSpeedJob.
const Kind = "DeepSpeedJob"

// DeepSpeedJob defines the schema for the DeepSpeedJob API. It runs a distributed training with DeepSpeed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deepspeedjobs,shortName=dsjob,categories=training
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.elastic.expectedReplicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.backoffCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.scheduler.t9kScheduler.queue`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS-1035 label, since the job's Service is named like it: at most 63 lower case letters, digits and '-', beginning with a letter and ending with a letter or digit"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) + size('worker') + size(string([0, (self.spec.?elastic.?enabled.orValue(false) ? self.spec.elastic.?maxReplicas.orValue(1) : self.spec.worker.?replicas.orValue(1)) - 1].max())) + 2 <= 63",message="metadata.name is too long: the pods are named <name>-worker-<index>, which must fit into 63 characters"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || self.spec.worker == oldSelf.spec.worker",message="spec.worker can be changed only while the job is paused: wait for its condition Paused",fieldPath=".spec.worker"
// +kubebuilder:validation:XValidation:rule="oldSelf.spec.?runMode.?pause.?enabled.orValue(false) && has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Paused' || (has(self.spec.config) == has(oldSelf.spec.config) && (!has(self.spec.config) || self.spec.config == oldSelf.spec.config))",message="spec.config can be changed only while the job is paused: wait for its condition Paused"
type DeepSpeedJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired behavior of the job.
	Spec DeepSpeedJobSpec `json:"spec"`

	// The most recently observed status of the job. It may lag behind what is true by some seconds.
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

// DeepSpeedJobSpec outlines the intended configuration and execution parameters for a DeepSpeedJob.
//
// Always mutable: runMode.pause.enabled, runPolicy, elastic.expectedReplicas. Mutable while the job is paused: worker,
// config. Everything else never changes.
//
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.?enabled.orValue(false) || has(self.config) && (has(self.config.customCommand) && size(self.config.customCommand) > 0 || has(self.config.run) && (size(self.config.run.?python.orValue([])) > 0 || size(self.config.run.?module.orValue([])) > 0 || size(self.config.run.?exec.orValue([])) > 0))",message="config.run must say what to run, as python, module or exec, unless config.customCommand or debug mode is there",fieldPath=".config"
// +kubebuilder:validation:XValidation:rule="!self.?elastic.?enabled.orValue(false) || self.?config.?localRank.orValue(true)",message="config.localRank cannot be false with elastic training, whose launcher always passes the local rank",fieldPath=".config"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.debug) || !has(self.runMode.debug.replicaSpecs) || self.runMode.debug.replicaSpecs.all(d, d.type == 'worker')",message="runMode.debug.replicaSpecs names a type other than worker, which is the only one",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="!has(self.runMode) || !has(self.runMode.pause) || !has(self.runMode.pause.resumeSpecs) || self.runMode.pause.resumeSpecs.all(s, s.type == 'worker')",message="runMode.pause.resumeSpecs names a type other than worker, which is the only one",fieldPath=".runMode"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) == oldSelf.?elastic.?enabled.orValue(false)",message="elastic.enabled cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?minReplicas == oldSelf.?elastic.?minReplicas",message="elastic.minReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?maxReplicas == oldSelf.?elastic.?maxReplicas",message="elastic.maxReplicas cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?elastic.?enabled.orValue(false) || !self.?elastic.?expectedReplicas.hasValue() || self.?elastic.?expectedReplicas == oldSelf.?elastic.?expectedReplicas",message="expectedReplicas can be changed only in an elastic job, where elastic.enabled is true: another job cannot be scaled",fieldPath=".elastic.expectedReplicas"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?debug.hasValue() == oldSelf.?runMode.?debug.hasValue()",message="runMode.debug cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?runMode.?pause.?resumeSpecs.hasValue() == oldSelf.?runMode.?pause.?resumeSpecs.hasValue()",message="runMode.pause.resumeSpecs cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?scheduler.hasValue() == oldSelf.?scheduler.hasValue()",message="scheduler cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.?disableCustomEnv.orValue(false) == oldSelf.?disableCustomEnv.orValue(false)",message="disableCustomEnv cannot be changed"
type DeepSpeedJobSpec struct {
	// The scheduler that allocates resources to the replicas. Defaults to the cluster's default scheduler. It cannot be
	// changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`

	// Execution policy governing how long the job may be active, how often it is retried and what is cleaned up.
	//
	// +optional
	// +kubebuilder:default={}
	RunPolicy batchv1beta1.RunPolicy `json:"runPolicy,omitempty"`

	// Job's execution behavior. If omitted, the replicas run as soon as the job is created.
	//
	// +optional
	RunMode *batchv1beta1.RunMode `json:"runMode,omitempty"`

	// How to launch an elastic training. The launcher is started anew whenever the set of workers changes.
	//
	// +optional
	Elastic *batchv1beta1.ElasticConfig `json:"elastic,omitempty"`

	// What to run, and how to launch it. Required unless the job is in debug mode. It can be changed only while the job is
	// paused.
	//
	// +optional
	Config *Config `json:"config,omitempty"`

	// Set true to keep the environment variables of the template to the container's entrypoint, so that the training
	// processes do not have them. Defaults to false: every training process has the environment of its container,
	// variables from Secrets and ConfigMaps included.
	//
	// +optional
	DisableCustomEnv bool `json:"disableCustomEnv,omitempty"`

	// The worker replicas. It can be changed only while the job is paused.
	Worker Worker `json:"worker"`
}

// AutotuneType says whether and how DeepSpeed's autotuner is used: none, run or tune.
//
// +kubebuilder:validation:Enum=none;run;tune
type AutotuneType string

// How the autotuner is used, by the values that deepspeed --autotuning has for it.
const (
	// AutotuneNone is without it.
	AutotuneNone AutotuneType = "none"
	// AutotuneRun finds the best configuration and then trains with it.
	AutotuneRun AutotuneType = "run"
	// AutotuneTune finds the best configuration and ends.
	AutotuneTune AutotuneType = "tune"
)

// Config is how to run a DeepSpeed job; see https://www.deepspeed.ai/getting-started/.
type Config struct {
	// A shell command that launches the training, on worker 0. If it is given, every other field of config but
	// slotsPerWorker has no effect. The workers are in the hostfile /t9k/hostfile. As in every command of a container,
	// Kubernetes replaces $(NAME) of the container's variables and $$ first. At most 65536 characters.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CustomCommand string `json:"customCommand,omitempty"`

	// The number of slots of each worker, which is how many training processes it runs: normally its number of GPUs. At
	// least 1. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	SlotsPerWorker *int32 `json:"slotsPerWorker,omitempty"`

	// Whether the training program gets the parameter --local_rank. Defaults to true. It cannot be false with elastic
	// training.
	//
	// +optional
	// +kubebuilder:default=true
	LocalRank *bool `json:"localRank,omitempty"`

	// Whether to use DeepSpeed's autotuner: none, run (find the best configuration and train with it) or tune (only find
	// it). Defaults to none.
	//
	// +optional
	// +kubebuilder:default=none
	Autotune AutotuneType `json:"autotune,omitempty"`

	// The training program. Required unless customCommand is given or the job is in debug mode.
	//
	// +optional
	Run *RunType `json:"run,omitempty"`

	// Further arguments of deepspeed, at most 256 of 4096 characters. They come last before the program, so that they
	// override those of the controller.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	OtherArgs []string `json:"otherArgs,omitempty"`
}

// RunType is how the training program is started. No more than one of its fields may be non-empty.
//
// +kubebuilder:validation:XValidation:rule="(size(self.?python.orValue([])) > 0 ? 1 : 0) + (size(self.?module.orValue([])) > 0 ? 1 : 0) + (size(self.?exec.orValue([])) > 0 ? 1 : 0) <= 1",message="only one of python, module and exec is allowed"
type RunType struct {
	// A Python script and its arguments, at most 1024 of 4096 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Python []string `json:"python,omitempty"`

	// A Python module and its arguments, at most 1024 of 4096 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Module []string `json:"module,omitempty"`

	// An executable program and its arguments, at most 1024 of 4096 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	Exec []string `json:"exec,omitempty"`
}

// Worker is what the worker replicas are.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && self.template.spec.containers.size() > 0",message="at least one container is required",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || (self.template.spec.containers.filter(c, c.name == 'worker') + self.template.spec.containers)[?0].optMap(m, !has(m.restartPolicy) && !has(m.restartPolicyRules)).orValue(true)",message="the main container cannot have restartPolicy or restartPolicyRules: the controller restarts replicas, as restartPolicy beside the template says",fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || self.template.spec.containers.all(c, c.name != 'worker' && (c.name != self.template.spec.containers[0].name || self.template.spec.containers.exists(w, w.name == 'worker')) || (!has(c.volumeMounts) || c.volumeMounts.all(v, !(v.mountPath in ['/t9k/agent', '/t9k/ssh', '/t9k/hostfile'] || v.mountPath.startsWith('/t9k/agent/') || v.mountPath.startsWith('/t9k/ssh/') || v.mountPath.startsWith('/t9k/hostfile/')))) && (!has(c.volumeDevices) || c.volumeDevices.all(d, !(d.devicePath in ['/t9k/agent', '/t9k/ssh', '/t9k/hostfile'] || d.devicePath.startsWith('/t9k/agent/') || d.devicePath.startsWith('/t9k/ssh/') || d.devicePath.startsWith('/t9k/hostfile/')))))",message="volumeMounts and volumeDevices of the main container cannot be at /t9k/agent, /t9k/ssh or /t9k/hostfile, nor below them: these paths are reserved",fieldPath=".template.spec.containers"
type Worker struct {
	// The number of workers, from 0 to 2000. Defaults to 1. In an elastic job it has no effect.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000
	Replicas *int32 `json:"replicas,omitempty"`

	// The pod that is created for each worker. The container named `worker`, else the first one is the main container: its
	// image must have DeepSpeed and pdsh. Its command and args are ignored, since config says what to run. restartPolicy
	// is always set to Never, since the controller decides whether a replica is restarted; hostname, subdomain and the
	// labels of the controller are overridden too. The main container cannot have restartPolicy or restartPolicyRules of
	// its own, nor volumeMounts or volumeDevices at or below /t9k/agent, /t9k/ssh and /t9k/hostfile.
	Template corev1.PodTemplateSpec `json:"template"`

	// When a worker that ended is restarted: Always, OnFailure, Never or ExitCode. Defaults to OnFailure.
	//
	// +optional
	// +kubebuilder:default=OnFailure
	RestartPolicy batchv1beta1.RestartPolicy `json:"restartPolicy,omitempty"`
}

// DeepSpeedJobStatus represents the observed state of a DeepSpeedJob.
type DeepSpeedJobStatus struct {
	batchv1beta1.JobStatus `json:",inline"`
}
