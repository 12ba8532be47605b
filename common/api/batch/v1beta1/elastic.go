package v1beta1

import "k8s.io/utils/ptr"

// ElasticConfig configures the elastic scaling of the job.
//
// +kubebuilder:validation:XValidation:rule="!self.?enabled.orValue(false) || (has(self.minReplicas) && has(self.maxReplicas))",message="minReplicas and maxReplicas are required when elastic is enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas must not be greater than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.expectedReplicas) || !has(self.minReplicas) || !has(self.maxReplicas) || (self.minReplicas <= self.expectedReplicas && self.expectedReplicas <= self.maxReplicas)",message="expectedReplicas must be from minReplicas to maxReplicas",fieldPath=".expectedReplicas"
type ElasticConfig struct {
	// Set to true to use elastic training. Defaults to false. It cannot be changed after the job is created.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// The minimum number of replicas that the job can run with. Neither a user nor an autoscaler can scale the job below
	// this number. At least 1 and at most maxReplicas. Required if enabled is true. It cannot be changed after the job is
	// created.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// The maximum number of replicas that the job can run with. Neither a user nor an autoscaler can scale the job above
	// this number. At least minReplicas and at most 2000. Required if enabled is true. It cannot be changed after the job
	// is created.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// The number of replicas to create, from minReplicas to maxReplicas. A user or an autoscaler can change it at any time
	// to scale the job up or down. A job that is not elastic cannot be scaled. Defaults to minReplicas.
	//
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`
}

// Least returns the minimum number of replicas that the job can run with.
func (e *ElasticConfig) Least() int32 { return ptr.Deref(e.MinReplicas, 1) }

// Most returns the maximum number of replicas that the job can run with.
func (e *ElasticConfig) Most() int32 { return ptr.Deref(e.MaxReplicas, e.Least()) }

// Expected returns the number of replicas to create.
func (e *ElasticConfig) Expected() int32 { return ptr.Deref(e.ExpectedReplicas, e.Least()) }
