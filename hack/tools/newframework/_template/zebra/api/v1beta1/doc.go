// Package v1beta1 contains the ZebraTrainingJob API of batch.tensorstack.dev/v1beta1.
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

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "batch.tensorstack.dev", Version: "v1beta1"}

// AddToScheme adds the types of this package to a scheme. It also adds the types of the API of the scheduler, because
// a job can own a PodGroup.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ZebraTrainingJob{}, &ZebraTrainingJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return schedulerv1beta1.AddToScheme(scheme)
}
