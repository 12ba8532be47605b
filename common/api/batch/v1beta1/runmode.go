package v1beta1

// RunMode selects how the job is executed. If unset, the job runs as soon as it is created.
//
// +kubebuilder:validation:XValidation:rule="!(self.?debug.?enabled.orValue(false) && self.?pause.?enabled.orValue(false))",message="debug and pause cannot both be enabled: disable one of them"
type RunMode struct {
	// Debug mode creates the whole environment of the job, but runs an idle command instead of the training.
	// It cannot be changed after the job is created.
	//
	// +optional
	Debug *DebugMode `json:"debug,omitempty"`

	// Pause mode deletes the pods of the job gracefully, or does not create them, and keeps the job.
	//
	// +optional
	Pause *PauseMode `json:"pause,omitempty"`
}

// DebugMode describes how the replicas of the job idle, so that a user can start the training by hand.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="runMode.debug cannot be changed"
type DebugMode struct {
	// Set to true to use debug mode. Defaults to false.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// How to start the replicas of each type, for at most 32 types. A type that is not listed runs the default command.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	ReplicaSpecs []ReplicaDebugSet `json:"replicaSpecs,omitempty"`
}

// ReplicaDebugSet describes how the replicas of one type start in debug mode.
type ReplicaDebugSet struct {
	// Type of the replicas. It must be one of spec.replicaSpecs[].type, or worker in a DeepSpeedJob. At most 63
	// characters.
	//
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// Set to true to omit the init containers of the template, except sidecars (init containers with restartPolicy
	// Always). Defaults to false.
	//
	// +optional
	SkipInitContainer bool `json:"skipInitContainer,omitempty"`

	// Command of the main container. It replaces the command and the args of the template. The probes of the main
	// container are omitted in debug mode. Defaults to `sleep inf`. In a DeepSpeedJob, the default is the agent that
	// serves ssh to the launcher. At most 1024 items of 131072 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`
}

// PauseMode describes whether the job is paused, and how its replicas start when it is resumed.
type PauseMode struct {
	// Set to true to pause the job, and to false to resume it. Defaults to false. It can be changed at any time.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// How to start the replicas of each type after a pause, for at most 32 types. A type that is not listed starts as
	// specified by its template. It cannot be changed after the job is created.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="runMode.pause.resumeSpecs cannot be changed"
	ResumeSpecs []ResumeSpec `json:"resumeSpecs,omitempty"`
}

// ResumeSpec describes how the replicas of one type start after a pause. It also applies to every later restart. It
// does not apply to a job that was created paused and is resumed for the first time, because there is nothing to resume
// yet.
type ResumeSpec struct {
	// Type of the replicas. It must be one of spec.replicaSpecs[].type, or worker in a DeepSpeedJob. At most 63
	// characters.
	//
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// Set to true to omit the init containers of the template, except sidecars (init containers with restartPolicy
	// Always). Defaults to false.
	//
	// +optional
	SkipInitContainer bool `json:"skipInitContainer,omitempty"`

	// Command of the main container. If unset, the command of the template is used. If a launcher such as torchrun starts
	// the training, this command replaces the whole command line, including the args of the template. At most 1024 items
	// of 131072 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`

	// Args of the main container. If unset, the args of the template are used. With torchrun, these are the script and its
	// arguments. At most 1024 items of 131072 characters each.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Args []string `json:"args,omitempty"`
}

// Pausing reports whether the job is paused or being paused.
func (m *RunMode) Pausing() bool { return m != nil && m.Pause != nil && m.Pause.Enabled }

// Debugging reports whether the job is in debug mode.
func (m *RunMode) Debugging() bool { return m != nil && m.Debug != nil && m.Debug.Enabled }
