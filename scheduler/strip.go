package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/manager"
)

const (
	// annotationAbridged is on a pod in the cache that cannot be released without the rest of its spec.
	annotationAbridged = "scheduler.tensorstack.dev/abridged"
	// maxResources is more than the resources of any node, and maxRoles is that of a PodGroup.
	maxResources = 64
	maxRoles     = 64
	// maxKey is longer than the name of a resource or of a role, in bytes.
	maxKey = 512
)

// strip keeps of an object what the controller reads, for the cache. Patches are computed from that: they may change
// only what is kept whole.
func strip(object client.Object) {
	switch object := object.(type) {
	case *corev1.Pod:
		stripPod(object)
	case *v1beta1.PodGroup:
		manager.StripMeta(&object.ObjectMeta, nil, nil)
	case *metav1.PartialObjectMetadata: // a namespace, whose labels queues select
		object.SetAnnotations(nil)
	case *corev1.Node:
		manager.StripMeta(&object.ObjectMeta, nil, nil)
		object.Spec, object.Status = corev1.NodeSpec{}, corev1.NodeStatus{Allocatable: object.Status.Allocatable}
	case *schedulingv1beta1.PodGroup:
		stripNativeGroup(object)
	case *volcanov1beta1.PodGroup:
		stripVolcanoGroup(object)
	}
}

// stripPod keeps of a pod what it requests, and how far it is. Anybody may create a pod of any group. One that
// requests more resources than any node has is of none: it is not released, and no scheduler can place it.
func stripPod(pod *corev1.Pod) {
	requests := requestsOf(pod)
	delete(requests, corev1.ResourcePods)
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	if len(requests) > maxResources {
		manager.StripForeignMeta(&pod.ObjectMeta)
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
		return
	}
	isAbridged := isGated(pod) && (len(pod.Spec.SchedulingGates) > 1 || hasNodeTerms(&pod.Spec))
	manager.StripMeta(&pod.ObjectMeta,
		[]string{v1beta1.LabelGroupName, v1beta1.LabelQueue, v1beta1.LabelRole},
		[]string{v1beta1.AnnotationExtra, v1beta1.AnnotationReleased, gang.AnnotationGroup, annotationAbridged})
	if isAbridged {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationAbridged, "true")
	}
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName, PriorityClassName: pod.Spec.PriorityClassName}
	if len(requests) > 0 {
		spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	}
	if isGated(pod) {
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1beta1.QueueGate}}
	}
	if isGrouped(pod) {
		spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	}
	if pod.Spec.SchedulerName == v1beta1.SchedulerName {
		spec.SchedulerName = v1beta1.SchedulerName
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			status.Conditions = append(status.Conditions, c)
		}
	}
	manager.StripPodStatus(&status)
	pod.Spec, pod.Status = spec, status
}

// hasNodeTerms reports whether a pod requires nodes by terms of its own, which the controller adds to.
func hasNodeTerms(pod *corev1.PodSpec) bool {
	return pod.Affinity != nil && pod.Affinity.NodeAffinity != nil &&
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// isOfGroup reports whether a PodGroup of ours controls an object of the engine.
func isOfGroup(object client.Object) bool {
	return manager.HasController(object, v1beta1.GroupVersion.WithKind("PodGroup").GroupKind())
}

// stripNativeGroup keeps of a group of kube-scheduler what it needs, and whether it has been scheduled.
func stripNativeGroup(group *schedulingv1beta1.PodGroup) {
	if !isOfGroup(group) {
		manager.StripForeignMeta(&group.ObjectMeta)
		group.Spec, group.Status = schedulingv1beta1.PodGroupSpec{}, schedulingv1beta1.PodGroupStatus{}
		return
	}
	manager.StripMeta(&group.ObjectMeta, nil, nil)
	group.Spec = schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: group.Spec.SchedulingPolicy, PriorityClassName: group.Spec.PriorityClassName,
	}
	status := schedulingv1beta1.PodGroupStatus{}
	if c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); c != nil {
		status.Conditions = []metav1.Condition{{Type: c.Type, Status: c.Status}}
	}
	group.Status = status
}

// stripVolcanoGroup keeps of a group of Volcano what it needs. One that needs more than a group of ours can is not
// ours.
func stripVolcanoGroup(group *volcanov1beta1.PodGroup) {
	spec := group.Spec
	isPlausible := len(spec.PriorityClassName) <= maxKey && fits(spec.MinTaskMember, maxRoles) &&
		(spec.MinResources == nil || fits(*spec.MinResources, maxResources))
	group.Spec, group.Status = volcanov1beta1.PodGroupSpec{}, volcanov1beta1.PodGroupStatus{}
	if !isPlausible || !isOfGroup(group) {
		manager.StripForeignMeta(&group.ObjectMeta)
		return
	}
	manager.StripMeta(&group.ObjectMeta, nil, nil)
	group.Spec = volcanov1beta1.PodGroupSpec{
		MinMember: spec.MinMember, MinTaskMember: spec.MinTaskMember, MinResources: spec.MinResources,
		PriorityClassName: spec.PriorityClassName,
	}
}

// fits reports whether a map has at most so many keys, and none that is too long.
func fits[K ~string, V any](m map[K]V, most int) bool {
	for key := range m {
		if len(key) > maxKey {
			return false
		}
	}
	return len(m) <= most
}
