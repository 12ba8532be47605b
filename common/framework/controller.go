package framework

import "k8s.io/apimachinery/pkg/runtime"

// Controller describes the controller of one job kind. manager.JobProgram makes its program.
type Controller[J Job] struct {
	// Name of the controller and of its leader election Lease.
	Name string
	// AddToScheme registers the API types of its jobs.
	AddToScheme func(*runtime.Scheme) error
	// Framework of its jobs.
	Framework Framework[J]
}
