// Package v1beta1 holds the PodGroup and Queue API of scheduler.tensorstack.dev/v1beta1. It is in this module because
// every job controller makes PodGroups.
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

// AddToScheme registers the types of this package. It returns no error unless the scheme holds others under their
// names.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodGroup{}, &PodGroupList{}, &Queue{}, &QueueList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// SchedulerName is the name of the scheduler that schedules PodGroups, whichever engine it is.
const SchedulerName = "t9k-scheduler"

// Labels of the pods of a PodGroup. Pods that are made by hand need the first.
const (
	// LabelGroupName holds the name of the pod's PodGroup.
	LabelGroupName = "scheduler.tensorstack.dev/group-name"
	// LabelQueue holds the name of the Queue.
	LabelQueue = "scheduler.tensorstack.dev/queue"
	// LabelRole holds the role of the pod in its group.
	LabelRole = "scheduler.tensorstack.dev/role"
)

// AnnotationExtra marks a pod that its group can do without. It has the scheduling gate until the pods that the group
// needs are on nodes.
const AnnotationExtra = "scheduler.tensorstack.dev/extra"

// AnnotationReleased marks a pod whose gate the scheduler-controller has removed. It counts against the quota of its
// queue, also before it has a node.
const AnnotationReleased = "scheduler.tensorstack.dev/released"

// QueueGate is the scheduling gate of pods whose queue decides when, or where, they are scheduled (status.gated of
// their PodGroup).
const QueueGate = "scheduler.tensorstack.dev/queue"
