package manager

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// Limits of fields that the cache keeps and that users can write, in bytes. The API server does not limit them.
const (
	// maxAnnotation is longer than any annotation that a controller reads.
	maxAnnotation = 256
	// maxOwner is longer than any reference to an owner of our kinds. The name of an owner has at most 253 bytes.
	maxOwner = 512
	// maxOutput is the kubelet's limit for the termination message of a container. maxMessages is its limit for all
	// termination messages of a pod.
	maxOutput   = 4 << 10
	maxMessages = 12 << 10
)

// Strip returns a transform for a cache. The transform removes the managed fields of an object and calls strip, which
// strips the object to the fields that the program reads. It does not change tombstones of deleted objects. An object
// can be stripped twice.
func Strip(strip func(client.Object)) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if object, ok := object.(client.Object); ok {
			object.SetManagedFields(nil)
			//attack:the cache keeps everything that tenants write =>
			strip(object)
		}
		return object, nil
	}
}

// StripMeta strips metadata to the fields that identify the object, its times, the reference to its controller, and the
// named labels and annotations. It truncates labels and annotations that are longer than any that a controller reads.
func StripMeta(m *metav1.ObjectMeta, labels, annotations []string) {
	stripped := metav1.ObjectMeta{
		Namespace:                  m.Namespace,
		Name:                       m.Name,
		UID:                        m.UID,
		ResourceVersion:            m.ResourceVersion,
		Generation:                 m.Generation,
		CreationTimestamp:          m.CreationTimestamp,
		DeletionTimestamp:          m.DeletionTimestamp,
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels:                     bounded.Pick(m.Labels, labels, maxAnnotation),
		Annotations:                bounded.Pick(m.Annotations, annotations, maxAnnotation),
	}
	if owner := controllerOf(m); owner != nil {
		stripped.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	*m = stripped
}

// StripForeignMeta strips the metadata of an object that is not ours to the fields that identify the object and the
// deletion timestamp.
func StripForeignMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// StripOwnedMeta strips the metadata of an object as StripMeta does if an object of the kind controls it, and otherwise
// as StripForeignMeta does. It keeps no labels and annotations.
func StripOwnedMeta(m *metav1.ObjectMeta, kind schema.GroupKind) {
	if HasController(m, kind) {
		StripMeta(m, nil, nil)
	} else {
		StripForeignMeta(m)
	}
}

// HasController reports whether an object of the kind, in any version, controls the given object. Labels are no proof,
// because users can set them.
func HasController(object metav1.Object, kind schema.GroupKind) bool {
	owner := controllerOf(object)
	return owner != nil && owner.Kind == kind.Kind && strings.HasPrefix(owner.APIVersion, kind.Group+"/")
}

// controllerOf returns the reference to the owner that controls an object. It returns nil if there is none, or if the
// reference is too long for an owner of our kinds.
func controllerOf(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) > maxOwner {
		return nil
	}
	return owner
}

// StripPodStatus strips the status of a pod to the fields that package policy reads: the phase, the conditions and the
// statuses of the containers. It truncates messages.
func StripPodStatus(status *corev1.PodStatus) {
	stripped := corev1.PodStatus{
		Phase: status.Phase, Reason: status.Reason, Message: report.Truncated(status.Message, report.MaxNote),
		Conditions: slices.Clone(status.Conditions),
	}
	for i, c := range status.Conditions {
		kept := corev1.PodCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
		}
		if c.Type == corev1.PodScheduled {
			kept.Message = report.Truncated(c.Message, report.MaxNote)
		}
		stripped.Conditions[i] = kept
	}
	m := &messages{left: maxMessages}
	stripped.InitContainerStatuses = m.stripContainers(status.InitContainerStatuses)
	stripped.ContainerStatuses = m.stripContainers(status.ContainerStatuses)
	*status = stripped
}

// messages limits the total size of the messages of a pod's containers.
type messages struct {
	// left is the remaining number of bytes that the cache keeps.
	left int
}

// cut truncates a message to the given number of bytes, or to the remaining number if that is less.
func (m *messages) cut(message string, most int) string {
	if most = min(most, m.left); len(message) > most && most < len("...") {
		return ""
	}
	message = report.Truncated(message, most)
	m.left -= len(message)
	return message
}

// stripContainers strips container statuses to the fields that package policy and the status of a job need.
func (m *messages) stripContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	stripped := slices.Clone(statuses)
	for i, s := range statuses {
		stripped[i] = corev1.ContainerStatus{
			Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount,
			State: m.stripState(s.State), LastTerminationState: m.stripState(s.LastTerminationState),
			AllocatedResourcesStatus: unhealthyOf(s.AllocatedResourcesStatus),
		}
	}
	return stripped
}

// unhealthyOf returns the devices that are unhealthy, without messages. It returns at most as many as a failure lists,
// and nil if there are none.
func unhealthyOf(resources []corev1.ResourceStatus) []corev1.ResourceStatus {
	var unhealthy []corev1.ResourceStatus
	left := policy.MaxDevices
	for _, resource := range resources {
		var devices []corev1.ResourceHealth
		for _, device := range resource.Resources {
			if device.Health == corev1.ResourceHealthStatusUnhealthy && left > 0 {
				left--
				id := corev1.ResourceID(report.Truncated(string(device.ResourceID), maxAnnotation))
				devices = append(devices, corev1.ResourceHealth{ResourceID: id, Health: device.Health})
			}
		}
		if len(devices) > 0 {
			name := corev1.ResourceName(report.Truncated(string(resource.Name), maxAnnotation))
			unhealthy = append(unhealthy, corev1.ResourceStatus{Name: name, Resources: devices})
		}
	}
	return unhealthy
}

func (m *messages) stripState(state corev1.ContainerState) corev1.ContainerState {
	switch {
	case state.Terminated != nil:
		t := state.Terminated
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: t.ExitCode, Reason: t.Reason, Message: m.cut(t.Message, maxOutput), FinishedAt: t.FinishedAt,
		}}
	case state.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case state.Waiting != nil:
		w := state.Waiting
		return corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: w.Reason, Message: m.cut(w.Message, report.MaxNote)},
		}
	default:
		return corev1.ContainerState{}
	}
}
