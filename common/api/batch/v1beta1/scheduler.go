package v1beta1

// SchedulePolicy selects the scheduler of the replicas. If unset, the schedulerName of the pod template is used, which
// defaults to the default scheduler of the cluster. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="scheduler cannot be changed"
type SchedulePolicy struct {
	// Schedules the replicas as one gang from a Queue of the scheduler-controller.
	//
	// +optional
	T9kScheduler *T9kScheduler `json:"t9kScheduler,omitempty"`
}

// T9kScheduler describes the PodGroup of the job.
type T9kScheduler struct {
	// Name of the Queue (scheduler.tensorstack.dev) that the job is scheduled from. Required, at most 253 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue"`

	// Priority of the job within its queue, from 0 to 100. Jobs of a higher priority are scheduled first. Defaults to 10.
	//
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`
}
