package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// isGated reports whether a pod has the scheduling gate of its queue.
func isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == v1beta1.QueueGate })
}

// wasReleased reports whether the controller has removed the gate of the pod. A pod that never had the gate was not
// released. Such a pod counts against the quota only while it is on a node.
func wasReleased(pod *corev1.Pod) bool {
	return !isGated(pod) && pod.Annotations[v1beta1.AnnotationReleased] != ""
}

// occupiesNode reports whether a pod holds resources of a node. spec.nodeName alone does not prove it: anybody can name
// a node in a new pod, even one that does not exist. The condition PodScheduled is set when a scheduler binds the pod
// or when a kubelet accepts it, and tenants cannot set it.
func occupiesNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !isDone(pod) &&
		policy.ConditionOf(pod, corev1.PodScheduled).Status == corev1.ConditionTrue
}

// mayOccupyNode reports whether a pod holds resources of a node, or was released and can be bound at any time.
func mayOccupyNode(pod *corev1.Pod) bool {
	return occupiesNode(pod) || wasReleased(pod) && !isDone(pod)
}

// isDone reports whether a pod has ended and holds no resources.
func isDone(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isPlaced reports whether a pod counts as scheduled for its group: it is on a node, or has succeeded.
func isPlaced(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodFailed
}

// filter returns the pods that the function accepts.
func filter(pods []*corev1.Pod, is func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !is(pod) })
}

// isGrouped reports whether a pod is in a group of kube-scheduler.
func isGrouped(pod *corev1.Pod) bool { return pod.Spec.SchedulingGroup != nil }

// isExtra reports whether the controller of the pod marked it as extra: its group does not need it.
func isExtra(pod *corev1.Pod) bool { return pod.Annotations[v1beta1.AnnotationExtra] != "" }

// requestsOf returns the resources that a pod requests, as the scheduler counts them. The result has the resource
// "pods" with the quantity 1. A pod can request devices of a DeviceClass without a claim, as an extended resource
// with the name of the class. These devices count like the devices of a claim.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for name, quantity := range requests {
		if class, isOfClass := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); isOfClass {
			delete(requests, name)
			requests = add(requests, corev1.ResourceList{devicesOfClass(class): quantity})
		}
	}
	requests[corev1.ResourcePods] = resource.MustParse("1")
	return requests
}

// sumOf returns the sum of the requests of pods.
func sumOf(pods []*corev1.Pod) corev1.ResourceList {
	var sum corev1.ResourceList
	for _, pod := range pods {
		sum = add(sum, requestsOf(pod))
	}
	return sum
}

// add adds resources to a sum, which can be nil, and returns the sum.
func add(sum, more corev1.ResourceList) corev1.ResourceList {
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
	return sum
}

// lacking returns the first resource, by name, whose quota is exceeded by the sum of used and requested. Empty if the
// request fits. Resources that are not requested are ignored, even if more than their quota is used.
func lacking(quota, used, requested corev1.ResourceList) corev1.ResourceName {
	var over []corev1.ResourceName
	for name, limit := range quota {
		total := requested[name].DeepCopy()
		if total.IsZero() {
			continue
		}
		total.Add(used[name])
		if total.Cmp(limit) > 0 {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return ""
	}
	return slices.Min(over)
}

// countPods counts pods by phase.
func countPods(pods []*corev1.Pod) v1beta1.PodCounts {
	var counts v1beta1.PodCounts
	for _, pod := range pods {
		switch pod.Status.Phase {
		case corev1.PodRunning:
			counts.Running++
		case corev1.PodSucceeded:
			counts.Succeeded++
		case corev1.PodFailed:
			counts.Failed++
		case corev1.PodUnknown:
			counts.Unknown++
		default:
			counts.Pending++
		}
	}
	return counts
}

// allocatedTo returns the resources that pods hold on nodes. It returns at most maxResources of them, because tenants
// can use any names of resources and the API server rejects a status that is too large. It prefers the resources of
// the quota, and then the resources of Kubernetes itself.
func allocatedTo(pods []*corev1.Pod, quota corev1.ResourceList) corev1.ResourceList {
	sum := sumOf(filter(pods, occupiesNode))
	delete(sum, corev1.ResourcePods)
	rank := func(name corev1.ResourceName) int {
		if _, isLimited := quota[name]; isLimited {
			return 0
		}
		return 1 + strings.Count(string(name), "/") // resources of Kubernetes have no domain
	}
	names := slices.SortedFunc(maps.Keys(sum), func(a, b corev1.ResourceName) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b))
	})
	for _, name := range names[min(len(names), maxResources):] {
		delete(sum, name)
	}
	return sum
}

// activeByAge returns the pods that have not ended and are not being deleted, the oldest first.
func activeByAge(pods []*corev1.Pod) []*corev1.Pod {
	active := filter(pods, func(pod *corev1.Pod) bool { return !isDone(pod) && pod.DeletionTimestamp.IsZero() })
	slices.SortFunc(active, byAge)
	return active
}

// byAge compares pods by creation time, and then by name.
func byAge(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
