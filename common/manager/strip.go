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

// Limits, in bytes, of fields that users can write and that the cache keeps. The API server does not limit these
// fields.
const (
	// maxAnnotation is greater than the length of any annotation that a controller reads.
	maxAnnotation = 256
	// maxOutput is the kubelet's limit for the termination message of a container. maxMessages is the kubelet's limit
	// for all termination messages of a pod.
	maxOutput   = 4 << 10
	maxMessages = 12 << 10
	// maxDevices limits the total length of the resource names and IDs of all unhealthy devices of a pod.
	maxDevices = 8 << 10
)

// Limits of the numbers of containers whose statuses the cache keeps, besides the containers that the program names.
const (
	maxContainers     = 32
	maxInitContainers = 16
)

// Strip returns a transform for a cache. The transform removes the managed fields of an object and calls the function
// strip, which strips the object to the fields that the program reads. The transform does not change the tombstones
// of deleted objects. A cache can call the transform twice for the same object.
func Strip(strip func(client.Object)) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if object, ok := object.(client.Object); ok {
			object.SetManagedFields(nil)
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
	if owner := bounded.Owner(m); owner != nil {
		stripped.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	*m = stripped
}

// StripForeignMeta strips the metadata of an object that the controller does not own. It keeps only the deletion
// timestamp and the fields that identify the object.
func StripForeignMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// StripOwnedMeta strips metadata. If an object of the kind controls the stripped object, StripOwnedMeta calls
// StripMeta without any labels and annotations. Otherwise, it calls StripForeignMeta.
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
	owner := bounded.Owner(object)
	return owner != nil && owner.Kind == kind.Kind && strings.HasPrefix(owner.APIVersion, kind.Group+"/")
}

// Short truncates a text to maxAnnotation bytes. Call Short for names, reasons and other texts whose valid values
// have at most maxAnnotation bytes.
func Short[S ~string](text S) S { return S(report.Truncated(string(text), maxAnnotation)) }

// StripPodStatus strips the status of a pod to the fields that package policy reads: the phase, the conditions and
// the statuses of the containers. It truncates messages. A pod can have thousands of containers, so StripPodStatus
// does not keep the statuses of all containers. Besides the named containers, it keeps at most maxContainers
// containers and maxInitContainers init containers.
func StripPodStatus(status *corev1.PodStatus, named ...string) {
	stripped := corev1.PodStatus{
		Phase: Short(status.Phase), Reason: Short(status.Reason), Message: report.Truncated(status.Message, report.MaxNote),
	}
	for _, c := range status.Conditions {
		if !slices.Contains(conditionsRead, c.Type) || len(stripped.Conditions) == len(conditionsRead) {
			continue
		}
		kept := corev1.PodCondition{
			Type: c.Type, Status: Short(c.Status), Reason: Short(c.Reason), LastTransitionTime: c.LastTransitionTime,
		}
		if c.Type == corev1.PodScheduled {
			kept.Message = report.Truncated(c.Message, report.MaxNote)
		}
		stripped.Conditions = append(stripped.Conditions, kept)
	}
	t := &texts{messages: maxMessages, devices: maxDevices}
	stripped.InitContainerStatuses = t.stripContainers(foremost(status.InitContainerStatuses, maxInitContainers, named))
	stripped.ContainerStatuses = t.stripContainers(foremost(status.ContainerStatuses, maxContainers, named))
	*status = stripped
}

// conditionsRead are the conditions of a pod that the cache keeps: those of Kubernetes itself.
var conditionsRead = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	corev1.DisruptionTarget,
}

// foremost returns the statuses of the named containers and of at most the given number of others, in their original
// order. It prefers containers that have not ended, because they decide whether the pod still runs. After these, it
// prefers containers that have failed, because they decide why the pod has failed. If there are more statuses than
// the given number, only the named containers keep their last termination state.
func foremost(statuses []corev1.ContainerStatus, most int, named []string) []corev1.ContainerStatus {
	if len(statuses) <= most {
		return statuses
	}
	rank := func(s corev1.ContainerStatus) int {
		switch {
		case slices.Contains(named, s.Name):
			return 0
		case s.State.Terminated == nil:
			return 1
		case s.State.Terminated.ExitCode != 0:
			return 2
		default:
			return 3
		}
	}
	order := make([]int, len(statuses))
	for i, s := range statuses {
		order[i] = i
		if rank(s) == 0 {
			most++
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(statuses[a]) - rank(statuses[b]) })
	order = order[:min(len(order), most)]
	slices.Sort(order)
	kept := make([]corev1.ContainerStatus, len(order))
	for i, index := range order {
		kept[i] = statuses[index]
		if rank(kept[i]) > 0 {
			kept[i].LastTerminationState = corev1.ContainerState{}
		}
	}
	return kept
}

// texts limits the total size of texts about the containers of a pod.
type texts struct {
	// messages is the number of bytes that are left for messages. The field devices is the number of bytes that are left
	// for the names and IDs of devices.
	messages, devices int
}

// cut truncates a message to the given number of bytes, or to the bytes that are left for messages if these are
// fewer. It subtracts the length of the result from the bytes that are left.
func (t *texts) cut(message string, most int) string {
	if most = min(most, t.messages); len(message) > most && most < len("...") {
		return ""
	}
	message = report.Truncated(message, most)
	t.messages -= len(message)
	return message
}

// stripContainers strips container statuses to the fields that package policy and the status of a job need.
func (t *texts) stripContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	stripped := slices.Clone(statuses)
	for i, s := range statuses {
		stripped[i] = corev1.ContainerStatus{
			Name: Short(s.Name), Ready: s.Ready, RestartCount: s.RestartCount,
			State: t.stripState(s.State), LastTerminationState: t.stripState(s.LastTerminationState),
			AllocatedResourcesStatus: t.unhealthyOf(s.AllocatedResourcesStatus),
		}
	}
	return stripped
}

// unhealthyOf returns the devices that are unhealthy, without messages. It returns at most policy.MaxDevices devices.
// It omits a device if too few bytes are left for the ID of the device and the name of its resource. Nil means none.
func (t *texts) unhealthyOf(resources []corev1.ResourceStatus) []corev1.ResourceStatus {
	var unhealthy []corev1.ResourceStatus
	left := policy.MaxDevices
	for _, resource := range resources {
		name := Short(resource.Name)
		var devices []corev1.ResourceHealth
		for _, device := range resource.Resources {
			id := Short(device.ResourceID)
			size := len(name) + len(id)
			if device.Health == corev1.ResourceHealthStatusUnhealthy && left > 0 && size <= t.devices {
				left--
				t.devices -= size
				devices = append(devices, corev1.ResourceHealth{ResourceID: id, Health: device.Health})
			}
		}
		if len(devices) > 0 {
			unhealthy = append(unhealthy, corev1.ResourceStatus{Name: name, Resources: devices})
		}
	}
	return unhealthy
}

func (t *texts) stripState(state corev1.ContainerState) corev1.ContainerState {
	switch {
	case state.Terminated != nil:
		ended := state.Terminated
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: ended.ExitCode, Reason: Short(ended.Reason), Message: t.cut(ended.Message, maxOutput),
			FinishedAt: ended.FinishedAt,
		}}
	case state.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case state.Waiting != nil:
		w := state.Waiting
		return corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{
				Reason: Short(w.Reason), Message: t.cut(w.Message, report.MaxNote),
			},
		}
	default:
		return corev1.ContainerState{}
	}
}
