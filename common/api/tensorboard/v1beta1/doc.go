// Package v1beta1 contains the TensorBoard API of tensorstack.dev/v1beta1. It is in this module because the job kinds
// embed the spec of a TensorBoard and own TensorBoards.
//
// +kubebuilder:object:generate=true
// +groupName=tensorstack.dev
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the API.
var GroupVersion = schema.GroupVersion{Group: "tensorstack.dev", Version: "v1beta1"}

// AddToScheme registers the types of this package in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &TensorBoard{}, &TensorBoardList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
