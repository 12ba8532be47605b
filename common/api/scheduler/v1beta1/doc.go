// Package v1beta1 contains the PodGroup and Queue API of scheduler.tensorstack.dev/v1beta1. It is in this module
// because every job controller creates PodGroups.
//
// +kubebuilder:object:generate=true
// +groupName=scheduler.tensorstack.dev
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the API.
var GroupVersion = schema.GroupVersion{Group: "scheduler.tensorstack.dev", Version: "v1beta1"}

// AddToScheme registers the types of this package in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodGroup{}, &PodGroupList{}, &Queue{}, &QueueList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// SchedulerName is the spec.schedulerName of the pods of PodGroups. It is the same for all engines.
const SchedulerName = "t9k-scheduler"

// Labels of the pods of a PodGroup. A user who creates such pods must set LabelGroupName.
const (
	// LabelGroupName holds the name of the pod's PodGroup.
	LabelGroupName = "scheduler.tensorstack.dev/group-name"
	// LabelQueue holds the name of the Queue that the pod is scheduled from.
	LabelQueue = "scheduler.tensorstack.dev/queue"
	// LabelRole holds the role of the pod in its group.
	LabelRole = "scheduler.tensorstack.dev/role"
)

// AnnotationExtra marks a pod that its group does not need. The pod keeps its scheduling gate until the pods that the
// group needs are on nodes.
const AnnotationExtra = "scheduler.tensorstack.dev/extra"

// AnnotationReleased marks a pod whose scheduling gate the scheduler-controller has removed. The pod counts against the
// quota of its queue even before it is on a node. If the quota limits devices, the value is the number of devices of
// the pod by DeviceClass, such as {"gpu.example.org":8}. Otherwise it is "true".
const AnnotationReleased = "scheduler.tensorstack.dev/released"

// QueueGate is the scheduling gate of pods whose queue controls when or where they are scheduled. See status.gated of
// the PodGroup.
const QueueGate = "scheduler.tensorstack.dev/queue"
