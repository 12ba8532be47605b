package v1beta1

// SchedulePolicy assigns the replicas to a scheduler. Without it they are scheduled by the scheduler that their
// template names, else by the cluster's default one. It cannot be changed once the job is created.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="scheduler cannot be changed"
type SchedulePolicy struct {
	// Schedules the replicas as one gang in a queue, by the T9k scheduler.
	//
	// +optional
	T9kScheduler *T9kScheduler `json:"t9kScheduler,omitempty"`
}

// T9kScheduler describes the PodGroup of the job.
type T9kScheduler struct {
	// Name of the scheduler.tensorstack.dev Queue that the job is scheduled from. At most 253 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue"`

	// Priority of the job in its queue, from 0 to 100; the greater goes first. Defaults to 10.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`
}
