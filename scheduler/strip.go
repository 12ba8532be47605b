package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

const (
	// annotationAbridged marks a gated pod in the cache if its copy there lacks fields that the release of the pod
	// needs: other scheduling gates or a required node affinity.
	annotationAbridged = "scheduler.tensorstack.dev/abridged"
	// maxResources is more than the number of resources of any node. It is also the maximum number of resources in
	// status.allocated. maxRoles is the maximum number of roles in the spec of a PodGroup.
	maxResources = 64
	maxRoles     = 64
	// maxConditions is more than the number of conditions of a PodGroup.
	maxConditions = 16
	// maxKey is more than the maximum length, in bytes, of the name of a resource or a role.
	maxKey = 512
)

// strip removes from an object the fields that the controller does not read, before the object is cached. Patches are
// computed from cached objects, so they can change only fields that strip keeps completely.
func strip(object client.Object) {
	switch object := object.(type) {
	case *corev1.Pod:
		stripPod(object)
	case *v1beta1.PodGroup:
		manager.StripMeta(&object.ObjectMeta, nil, nil)
		stripGroupStatus(&object.Status)
	case *metav1.PartialObjectMetadata: // a namespace, which queues select by its labels
		object.SetAnnotations(nil)
	case *corev1.Node:
		manager.StripMeta(&object.ObjectMeta, nil, nil)
		object.Spec, object.Status = corev1.NodeSpec{}, corev1.NodeStatus{Allocatable: object.Status.Allocatable}
	case *resourcev1.ResourceClaim:
		stripClaim(object)
	case *schedulingv1beta1.PodGroup:
		stripNativeGroup(object)
	case *volcanov1beta1.PodGroup:
		stripVolcanoGroup(object)
	}
}

// stripGroupStatus limits the status of a PodGroup to the sizes that the controller writes. Only an administrator can
// have written a larger status, since tenants cannot write it.
func stripGroupStatus(status *v1beta1.PodGroupStatus) {
	status.PriorityClassName = manager.Short(status.PriorityClassName)
	if !fits(status.Allocated, maxResources) {
		status.Allocated = nil
	}
	kept := make([]metav1.Condition, 0, min(len(status.Conditions), maxConditions))
	for _, c := range status.Conditions[:cap(kept)] {
		c.Type, c.Reason = manager.Short(c.Type), manager.Short(c.Reason)
		c.Message = report.Truncated(c.Message, report.MaxMessage)
		kept = append(kept, c)
	}
	status.Conditions = kept
}

// stripPod keeps only the fields of a pod that the controller reads, such as the requests and the state. Anybody can
// create a pod with the label of a group. If the pod requests more kinds of resources than any node has, stripPod
// also removes the label, so that the pod belongs to no group. Such a pod is never released, and no scheduler can
// place it.
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
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName, PriorityClassName: manager.Short(pod.Spec.PriorityClassName)}
	if len(requests) > 0 {
		spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	}
	if isGated(pod) {
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1beta1.QueueGate}}
	}
	if isGrouped(pod) {
		spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	}
	claims := claimsOf(pod)
	for _, name := range claims[:min(len(claims), maxClaims+1)] {
		name = manager.Short(name)
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimName: &name})
	}
	if pod.Spec.SchedulerName == v1beta1.SchedulerName {
		spec.SchedulerName = v1beta1.SchedulerName
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase}
	if c := policy.ConditionOf(pod, corev1.PodScheduled); c.Type != "" {
		status.Conditions = []corev1.PodCondition{c}
	}
	manager.StripPodStatus(&status)
	pod.Spec, pod.Status = spec, status
}

// hasNodeTerms reports whether a pod has a required node affinity. When the controller releases such a pod, it adds
// the requirements of the queue to the terms of this affinity.
func hasNodeTerms(pod *corev1.PodSpec) bool {
	return pod.Affinity != nil && pod.Affinity.NodeAffinity != nil &&
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// isOfGroup reports whether a PodGroup of ours controls an object.
func isOfGroup(object client.Object) bool {
	return manager.HasController(object, v1beta1.GroupVersion.WithKind("PodGroup").GroupKind())
}

// stripNativeGroup keeps the scheduling policy and the PriorityClass of a group of kube-scheduler, and the condition
// that reports whether the group has been scheduled. Of a group that no PodGroup of ours controls, it keeps only
// minimal metadata.
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

// stripVolcanoGroup keeps the fields of a group of Volcano that the controller sets. It keeps only minimal metadata
// if no PodGroup of ours controls the group, or if the group is larger than any group that the controller creates.
func stripVolcanoGroup(group *volcanov1beta1.PodGroup) {
	spec := group.Spec
	isPlausible := len(spec.PriorityClassName) <= maxKey && len(spec.Queue) <= maxKey &&
		fits(spec.MinTaskMember, maxRoles) && (spec.MinResources == nil || fits(*spec.MinResources, maxResources))
	group.Spec, group.Status = volcanov1beta1.PodGroupSpec{}, volcanov1beta1.PodGroupStatus{}
	if !isPlausible || !isOfGroup(group) {
		manager.StripForeignMeta(&group.ObjectMeta)
		return
	}
	manager.StripMeta(&group.ObjectMeta, nil, nil)
	group.Spec = volcanov1beta1.PodGroupSpec{
		MinMember: spec.MinMember, MinTaskMember: spec.MinTaskMember, MinResources: spec.MinResources,
		Queue: spec.Queue, PriorityClassName: spec.PriorityClassName,
	}
}

// fits reports whether a map has at most the given number of keys, and no key longer than maxKey.
func fits[K ~string, V any](m map[K]V, most int) bool {
	for key := range m {
		if len(key) > maxKey {
			return false
		}
	}
	return len(m) <= most
}
