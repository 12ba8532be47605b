package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == v1beta1.QueueGate })
}

// wasReleased reports whether the controller has let the pod through. Pods that had no gate are not marked: they count
// from the moment on that they have a node.
func wasReleased(pod *corev1.Pod) bool {
	return !isGated(pod) && pod.Annotations[v1beta1.AnnotationReleased] != ""
}

// holdsNode reports whether a pod has resources of a node. Anybody may name a node in a new pod, even one that does not
// exist. The condition is set when a scheduler binds the pod or when a kubelet accepts it, and tenants cannot set it.
func holdsNode(pod *corev1.Pod) bool {
	isScheduled := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	}
	return pod.Spec.NodeName != "" && !isDone(pod) && slices.ContainsFunc(pod.Status.Conditions, isScheduled)
}

// mayHoldNode reports whether a pod has resources of a node, or was released and may have some soon.
func mayHoldNode(pod *corev1.Pod) bool { return holdsNode(pod) || wasReleased(pod) && !isDone(pod) }

// isDone says that a pod has given back what it had.
func isDone(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isPlaced says that a pod makes up its group: it is on a node, or has done its part.
func isPlaced(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodFailed
}

// placedOf returns the pods that are placed.
func placedOf(pods []*corev1.Pod) []*corev1.Pod {
	var placed []*corev1.Pod
	for _, pod := range pods {
		if isPlaced(pod) {
			placed = append(placed, pod)
		}
	}
	return placed
}

// isGrouped says that a pod is in a group of kube-scheduler's.
func isGrouped(pod *corev1.Pod) bool { return pod.Spec.SchedulingGroup != nil }

// isExtra says that its group can do without a pod, as a job says.
func isExtra(pod *corev1.Pod) bool { return pod.Annotations[v1beta1.AnnotationExtra] != "" }

// requestsOf returns what a pod takes of a node's resources, as the scheduler counts it.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = resource.MustParse("1")
	return requests
}

// sumOf returns what pods take together.
func sumOf(pods []*corev1.Pod) corev1.ResourceList {
	var sum corev1.ResourceList
	for _, pod := range pods {
		sum = add(sum, requestsOf(pod))
	}
	return sum
}

// add adds to a sum.
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

// lacking returns the first resource, by name, of which the quota has less left than is requested, beside what is used;
// empty if there is none. What is not requested lacks nobody, even if more than the quota is used of it.
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

// allocatedTo returns what pods on nodes have and have not given back.
func allocatedTo(pods []*corev1.Pod) corev1.ResourceList {
	var sum corev1.ResourceList
	for _, pod := range pods {
		if holdsNode(pod) {
			sum = add(sum, requestsOf(pod))
		}
	}
	delete(sum, corev1.ResourcePods)
	return sum
}

// activeByAge returns the pods that may yet do their part, the oldest first.
func activeByAge(pods []*corev1.Pod) []*corev1.Pod {
	var active []*corev1.Pod
	for _, pod := range pods {
		if !isDone(pod) && pod.DeletionTimestamp.IsZero() {
			active = append(active, pod)
		}
	}
	slices.SortFunc(active, byAge)
	return active
}

// byAge sorts pods: the first that was made, goes first.
func byAge(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
