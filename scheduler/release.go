package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/gang"
)

// held is a group whose pods wait for room in the quota of their queue.
type held struct {
	// Resource that there is too little of.
	Resource corev1.ResourceName
}

// release decides which pods of a queue may be scheduled now: those that a group needs at once, together, and once they
// are on nodes, each that it has more. A queue never exceeds its quota, also while released pods are not on nodes yet.
// Groups of a greater priority go first, and of equal ones the older; one that does not fit does not hold up those that
// do. A pod that has the PriorityClass of another group stays. It returns the groups that wait, by name.
func release(
	quota corev1.ResourceList, groups []groupView, orphans []*corev1.Pod,
) (released []*corev1.Pod, waiting map[string]held) {
	waiting = map[string]held{}
	used := usage(groups, orphans, mayHoldNode)
	fits := func(pods []*corev1.Pod) corev1.ResourceName {
		requested := sumOf(pods)
		if over := lacking(quota, used, requested); over != "" {
			return over
		}
		used = add(used, requested)
		released = append(released, pods...)
		return ""
	}
	for _, g := range slices.SortedFunc(slices.Values(groups), byPriority) {
		if !g.isAdmitted() {
			continue
		}
		gated, through := g.split()
		gated = slices.DeleteFunc(gated, g.hasForeignClass)
		// Those that the group can do without stand in for others only once they are on nodes.
		left := needOf(g.Group.Spec).without(slices.DeleteFunc(slices.Clone(through),
			func(pod *corev1.Pod) bool { return isExtra(pod) && !isPlaced(pod) }))
		needed, more := left.pick(slices.DeleteFunc(slices.Clone(gated), isExtra))
		if needed == nil && !left.isMet() {
			continue // not all are there
		}
		for _, pod := range more {
			if isGrouped(pod) { // kube-scheduler would hold the others for it
				needed = append(needed, pod)
			}
		}
		if over := fits(needed); over != "" {
			waiting[g.key()] = held{over}
			continue
		}
		if !needOf(g.Group.Spec).without(placedOf(through)).isMet() {
			continue
		}
		for _, pod := range gated {
			if slices.Contains(needed, pod) {
				continue
			}
			if over := fits([]*corev1.Pod{pod}); over != "" {
				break
			}
		}
	}
	return released, waiting
}

// usage returns what counts against the quota of a queue: the orphans and, of the groups that the queue selects, the
// pods that count. Anybody may create a group that names the queue.
func usage(groups []groupView, orphans []*corev1.Pod, counts func(*corev1.Pod) bool) corev1.ResourceList {
	used := sumOf(orphans)
	for _, g := range groups {
		//attack:pods of namespaces that a queue does not select count against its quota => if false {
		if !g.Selected {
			continue
		}
		for _, pod := range g.Pods {
			if counts(pod) {
				used = add(used, requestsOf(pod))
			}
		}
	}
	return used
}

// overQuota finds the groups whose pods are through and wait for nodes, although there may be some, since the quota has
// too little left: an engine that keeps the quota by itself does not say so.
func overQuota(quota corev1.ResourceList, groups []groupView, orphans []*corev1.Pod) map[string]held {
	waiting := map[string]held{}
	used := usage(groups, orphans, holdsNode)
	for _, g := range groups {
		_, through := g.split()
		others := slices.DeleteFunc(slices.Clone(through), isPlaced)
		needed, _ := needOf(g.Group.Spec).without(placedOf(through)).pick(others)
		if over := lacking(quota, used, sumOf(needed)); over != "" {
			waiting[g.key()] = held{over}
		}
	}
	return waiting
}

// split returns the pods that wait for their release, and those that are through and make up the group.
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

func byPriority(a, b groupView) int {
	return cmp.Or(
		-cmp.Compare(gang.PriorityOf(a.Group.Spec), gang.PriorityOf(b.Group.Spec)),
		a.Group.CreationTimestamp.Compare(b.Group.CreationTimestamp.Time),
		cmp.Compare(a.key(), b.key()),
	)
}
