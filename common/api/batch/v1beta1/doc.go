// Package v1beta1 contains the API types that all job kinds of batch.tensorstack.dev/v1beta1 share: policies, run
// modes, elastic scaling, scheduling and status. The kinds themselves are in the modules of their frameworks.
//
// +kubebuilder:object:generate=true
// +groupName=batch.tensorstack.dev
package v1beta1
