// Package v1beta1 contains the DeepSpeedJob API of batch.tensorstack.dev/v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=batch.tensorstack.dev
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// GroupVersion is the group and the version of this API.
var GroupVersion = schema.GroupVersion{Group: "batch.tensorstack.dev", Version: "v1beta1"}

// AddToScheme registers the types of this package in a scheme, and the PodGroups that its jobs can own.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DeepSpeedJob{}, &DeepSpeedJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return schedulerv1beta1.AddToScheme(scheme)
}
