package v1beta1

// RunMode selects how the job is executed. Without it the job runs as soon as it is created.
//
// +kubebuilder:validation:XValidation:rule="!(self.?debug.?enabled.orValue(false) && self.?pause.?enabled.orValue(false))",message="debug and pause cannot both be enabled: disable one of them"
type RunMode struct {
	// Debug creates the whole environment of the job but runs an idle command instead of the training.
	// It cannot be changed once the job is created.
	//
	// +optional
	Debug *DebugMode `json:"debug,omitempty"`

	// Pause deletes the replicas gracefully, or does not create them, and keeps the job.
	//
	// +optional
	Pause *PauseMode `json:"pause,omitempty"`
}

// DebugMode describes how the job's replicas wait for a person instead of training.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="runMode.debug cannot be changed"
type DebugMode struct {
	// Set true to use debug mode. Defaults to false.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// How to start the replicas of each type, at most 32. A type that is not listed runs the default command.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	ReplicaSpecs []ReplicaDebugSet `json:"replicaSpecs,omitempty"`
}

// ReplicaDebugSet describes how the replicas of one type start in debug mode.
type ReplicaDebugSet struct {
	// Type of the replicas, one of spec.replicaSpecs[].type. At most 63 characters.
	//
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// Set true to leave out the init containers of the template, except for sidecars (restartPolicy Always). Defaults to
	// false.
	//
	// +optional
	SkipInitContainer bool `json:"skipInitContainer,omitempty"`

	// Replaces the command and the args of the main container, whose probes are left out. Defaults to `sleep inf`;
	// a DeepSpeedJob serves ssh to its launcher instead. At most 1024 items of 131072 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`
}

// PauseMode describes whether the job is paused and how its replicas start when it is resumed.
type PauseMode struct {
	// Set true to pause the job, false to resume it. Defaults to false. It may be changed at any time.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// How to start the replicas of each type after a pause, at most 32. A type that is not listed starts as its template
	// says. It cannot be changed once the job is created.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="runMode.pause.resumeSpecs cannot be changed"
	ResumeSpecs []ResumeSpec `json:"resumeSpecs,omitempty"`
}

// ResumeSpec describes how the replicas of one type start after a pause. It holds for every later restart too. A job
// that was created paused starts without it: there is nothing to resume yet.
type ResumeSpec struct {
	// Type of the replicas, one of spec.replicaSpecs[].type. At most 63 characters.
	//
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`

	// Set true to leave out the init containers of the template, except for sidecars (restartPolicy Always). Defaults to
	// false.
	//
	// +optional
	SkipInitContainer bool `json:"skipInitContainer,omitempty"`

	// Replaces the command of the main container. Unset: the command of the template. Where the framework launches the
	// training by a command of its own, such as torchrun, it replaces the whole command line, the args of the template
	// too. At most 1024 items of 131072 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Command []string `json:"command,omitempty"`

	// Replaces the args of the main container. Unset: the args of the template. With torchrun, these are the script and
	// its arguments. At most 1024 items of 131072 characters.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	Args []string `json:"args,omitempty"`
}

// Pausing says whether the job is, or is to be, paused.
func (m *RunMode) Pausing() bool { return m != nil && m.Pause != nil && m.Pause.Enabled }

// Debugging says whether the job waits for a person instead of training.
func (m *RunMode) Debugging() bool { return m != nil && m.Debug != nil && m.Debug.Enabled }
