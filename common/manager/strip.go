package manager

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/report"
)

// Limits of what a cache keeps of an object that a user may write, in bytes. The API server limits none of them.
const (
	// maxAnnotation is longer than any annotation that a controller reads.
	maxAnnotation = 256
	// maxOwner is longer than any reference to an owner of ours: its name has at most 253 bytes.
	maxOwner = 512
	// maxOutput is how much the kubelet keeps of what a container leaves, and maxMessages of what all of a pod leave.
	maxOutput   = 4 << 10
	maxMessages = 12 << 10
)

// Strip returns a transform for a cache. It has an object stripped to what the program reads, before the cache keeps
// it, and always removes the managed fields. It does not change the tombstone of an object that is gone. An object may
// be stripped twice.
func Strip(strip func(client.Object)) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if object, ok := object.(client.Object); ok {
			object.SetManagedFields(nil)
			//attack:a cache keeps what tenants write =>
			strip(object)
		}
		return object, nil
	}
}

// StripMeta keeps of the metadata of an object what identifies it, its times, the owner that controls it, and the
// labels and annotations that are named. It cuts annotations that are longer than any that a controller reads.
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
		Labels:                     pick(m.Labels, labels),
		Annotations:                pick(m.Annotations, annotations),
	}
	if owner := controllerOf(m); owner != nil {
		stripped.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	*m = stripped
}

// StripForeignMeta keeps of the metadata of an object that is not ours what identifies it, and whether it is being
// deleted.
func StripForeignMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// StripOwnedMeta keeps of the metadata of an object which object of the kind controls it. Of one that none controls it
// keeps what StripForeignMeta does.
func StripOwnedMeta(m *metav1.ObjectMeta, kind schema.GroupKind) {
	if HasController(m, kind) {
		StripMeta(m, nil, nil)
	} else {
		StripForeignMeta(m)
	}
}

// HasController reports whether an object of the kind, in any version, controls an object. Labels prove nothing: users
// may set them.
func HasController(object metav1.Object, kind schema.GroupKind) bool {
	owner := controllerOf(object)
	return owner != nil && owner.Kind == kind.Kind && strings.HasPrefix(owner.APIVersion, kind.Group+"/")
}

// controllerOf returns the reference to the owner that controls an object. It returns nil if there is none, or if the
// reference is too long to be to an owner of ours.
func controllerOf(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) > maxOwner {
		return nil
	}
	return owner
}

// pick returns the entries of a map that are named; nil if it has none of them.
func pick(from map[string]string, names []string) map[string]string {
	var picked map[string]string
	for _, name := range names {
		value, ok := from[name]
		if !ok {
			continue
		}
		if picked == nil {
			picked = make(map[string]string, len(names))
		}
		picked[name] = report.Truncated(value, maxAnnotation)
	}
	return picked
}

// StripPodStatus keeps of the status of a pod what package policy reads: its phase and conditions, and how its
// containers are. It cuts messages.
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

// messages are those of the containers of a pod.
type messages struct {
	// left is how many bytes of them the cache keeps.
	left int
}

// cut cuts a message to at most so many bytes, or to what is left.
func (m *messages) cut(message string, most int) string {
	if most = min(most, m.left); len(message) > most && most < len("...") {
		return ""
	}
	message = report.Truncated(message, most)
	m.left -= len(message)
	return message
}

// stripContainers keeps of the statuses of containers what package policy and the status of a job need.
func (m *messages) stripContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	stripped := slices.Clone(statuses)
	for i, s := range statuses {
		stripped[i] = corev1.ContainerStatus{
			Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount,
			State: m.stripState(s.State), LastTerminationState: m.stripState(s.LastTerminationState),
		}
	}
	return stripped
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
