package v1beta1

// ManagedBy names the controller that manages a job, like the field of the same name of a batch/v1 Job. It is a
// domain-prefixed path, such as `example.com/controller`. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="managedBy cannot be changed"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$`
type ManagedBy string

const (
	// ManagedByJobController means that the job controller of the kind manages the job, as if the field were unset.
	ManagedByJobController ManagedBy = "batch.tensorstack.dev/job-controller"
	// ManagedByMultiKueue means that MultiKueue runs the job in another cluster. The job controller only requests its
	// admission, and deletes the finished job according to ttlSecondsAfterFinished.
	ManagedByMultiKueue ManagedBy = "kueue.x-k8s.io/multikueue"
)
