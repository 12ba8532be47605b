package v1beta1

import "k8s.io/utils/ptr"

// ElasticConfig governs the elastic scaling of the job.
//
// +kubebuilder:validation:XValidation:rule="!self.?enabled.orValue(false) || (has(self.minReplicas) && has(self.maxReplicas))",message="minReplicas and maxReplicas are required when elastic is enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas must not be greater than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.expectedReplicas) || !has(self.minReplicas) || !has(self.maxReplicas) || (self.minReplicas <= self.expectedReplicas && self.expectedReplicas <= self.maxReplicas)",message="expectedReplicas must be from minReplicas to maxReplicas",fieldPath=".expectedReplicas"
type ElasticConfig struct {
	// Set true to use elastic training. Defaults to false. It cannot be changed once the job is created.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// The least number of replicas that the job can run with; neither a user nor an autoscaler can go below it.
	// At least 1 and at most maxReplicas. Required when enabled. It cannot be changed once the job is created.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// The greatest number of replicas that the job can run with; neither a user nor an autoscaler can go above it.
	// At most 2000. Required when enabled. It cannot be changed once the job is created.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// The number of replicas to create, from minReplicas to maxReplicas. A user or an autoscaler may change it at any time
	// to scale the job up or down. A job that is not elastic cannot be scaled. Unset: minReplicas.
	//
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`
}

// Least returns the least number of replicas that the job can run with.
func (e *ElasticConfig) Least() int32 { return ptr.Deref(e.MinReplicas, 1) }

// Most returns the greatest number of replicas that the job can run with.
func (e *ElasticConfig) Most() int32 { return ptr.Deref(e.MaxReplicas, e.Least()) }

// Expected returns the number of replicas to create.
func (e *ElasticConfig) Expected() int32 { return ptr.Deref(e.ExpectedReplicas, e.Least()) }
