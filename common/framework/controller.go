package framework

import "k8s.io/apimachinery/pkg/runtime"

// Controller describes the controller of one job kind. manager.JobProgram makes its program.
type Controller[J Job] struct {
	// Name is the name of the controller and of its leader election Lease.
	Name string
	// AddToScheme registers the API types of the jobs.
	AddToScheme func(*runtime.Scheme) error
	// Framework is the framework of the jobs.
	Framework Framework[J]
	// Install copies the program that the main containers of jobs need into a folder. An init container of the pods
	// calls it: see Peers.AddInstaller. Nil means that the main containers need no program.
	Install func(folder string) error
}
