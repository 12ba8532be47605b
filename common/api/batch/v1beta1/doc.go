// Package v1beta1 holds the types that every job kind of batch.tensorstack.dev/v1beta1 shares: policies, run modes,
// elastic scaling, scheduling and status. The kinds themselves live in the module of their framework.
//
// +kubebuilder:object:generate=true
// +groupName=batch.tensorstack.dev
package v1beta1
