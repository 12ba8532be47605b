package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/gang"
)

// shortage is why the pods of a group wait for the quota of their queue.
type shortage struct {
	// Resource is the first resource, by name, whose quota does not suffice.
	Resource corev1.ResourceName
	// Pod is the name of a pod whose number of devices is not known, and Claim is the name of the ResourceClaim whose
	// devices cannot be counted. Both are empty if the devices of all pods are known.
	Pod, Claim string
}

// release returns the gated pods of a queue that can be scheduled now. The pods that a group needs are released
// together. When the needed pods are on nodes, the other pods of the group are released one by one.
//
// A queue never exceeds its quota: released pods count against it even before they are on nodes. The pods of groups
// with a higher priority are released first. Among groups with the same priority, the older ones come first. A group
// that does not fit does not block other groups. A pod with a foreign PriorityClass is never released, see
// hasForeignClass.
//
// The second result has the reason for each group that waits for the quota. Its keys are the keys of the groups.
func release(
	quota corev1.ResourceList, groups []groupView, orphans []*corev1.Pod,
) (released []*corev1.Pod, waiting map[string]shortage) {
	waiting = map[string]shortage{}
	used := usage(groups, orphans, mayOccupyNode)
	fits := func(pods []*corev1.Pod) corev1.ResourceName {
		requested := sumOf(pods)
		if over := lacking(quota, used, requested); over != "" {
			return over
		}
		used = add(used, requested)
		released = append(released, pods...)
		return ""
	}
	byPriority := func(a, b groupView) int { return gang.Compare(a.Group, b.Group) }
	for _, g := range slices.SortedFunc(slices.Values(groups), byPriority) {
		if !g.isAdmitted() {
			continue
		}
		gated, through := g.split()
		gated = slices.DeleteFunc(gated, g.hasForeignClass)
		// An extra pod counts as one of the needed pods only when it is placed.
		left := needOf(g.Group.Spec).without(slices.DeleteFunc(slices.Clone(through),
			func(pod *corev1.Pod) bool { return isExtra(pod) && !isPlaced(pod) }))
		needed, more := left.pick(slices.DeleteFunc(slices.Clone(gated), isExtra))
		if needed == nil && !left.isMet() {
			continue // not all needed pods exist
		}
		// kube-scheduler holds the group back until the other pods in its group are released too.
		needed = append(needed, filter(more, isGrouped)...)
		if pod, claim := uncounted(needed); pod != nil {
			waiting[g.key()] = shortage{Pod: pod.Name, Claim: claim}
			continue
		}
		if over := fits(needed); over != "" {
			waiting[g.key()] = shortage{Resource: over}
			continue
		}
		if !needOf(g.Group.Spec).without(filter(through, isPlaced)).isMet() {
			continue
		}
		for _, pod := range gated {
			if slices.Contains(needed, pod) || pod.Annotations[annotationUncounted] != "" {
				continue
			}
			if over := fits([]*corev1.Pod{pod}); over != "" {
				break
			}
		}
	}
	return released, waiting
}

// usage returns the resources that count against the quota of a queue: the requests of the orphans, and the requests
// of each pod of a selected group if counts(pod) is true. Groups in namespaces that the queue does not select are
// ignored.
func usage(groups []groupView, orphans []*corev1.Pod, counts func(*corev1.Pod) bool) corev1.ResourceList {
	used := sumOf(orphans)
	for _, g := range groups {
		if !g.Selected {
			continue
		}
		used = add(used, sumOf(filter(g.Pods, counts)))
	}
	return used
}

// overQuota returns the reasons why ungated pods wait for the quota, by the key of their group. The controller
// computes the reasons itself, because an engine that enforces quotas does not report them.
func overQuota(quota corev1.ResourceList, groups []groupView, orphans []*corev1.Pod) map[string]shortage {
	waiting := map[string]shortage{}
	used := usage(groups, orphans, occupiesNode)
	for _, g := range groups {
		_, through := g.split()
		others := slices.DeleteFunc(slices.Clone(through), isPlaced)
		needed, _ := needOf(g.Group.Spec).without(filter(through, isPlaced)).pick(others)
		if over := lacking(quota, used, sumOf(needed)); over != "" {
			waiting[g.key()] = shortage{Resource: over}
		}
	}
	return waiting
}

// split returns the gated and the ungated pods of the group, the oldest first. Pods that failed or are being deleted
// are in neither list.
func (g groupView) split() (gated, through []*corev1.Pod) {
	for _, pod := range slices.SortedFunc(slices.Values(g.Pods), byAge) {
		switch {
		case !pod.DeletionTimestamp.IsZero() || pod.Status.Phase == corev1.PodFailed:
		case isGated(pod):
			gated = append(gated, pod)
		default:
			through = append(through, pod)
		}
	}
	return gated, through
}
