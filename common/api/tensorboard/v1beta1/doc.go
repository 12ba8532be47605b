// Package v1beta1 holds the types of tensorstack.dev/v1beta1 that the job kinds embed.
//
// +kubebuilder:object:generate=true
// +groupName=tensorstack.dev
package v1beta1
