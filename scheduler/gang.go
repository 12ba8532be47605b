package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// need is how many pods a group needs, in total and of each role.
type need struct {
	Min   int
	Roles map[string]int
}

// needOf returns the need of a group. The total is at least the sum of the roles.
func needOf(spec v1beta1.PodGroupSpec) need {
	n := need{Min: int(spec.MinMember), Roles: map[string]int{}}
	sum := 0
	for _, role := range spec.Roles {
		n.Roles[role.Name] = int(role.MinMember)
		sum += int(role.MinMember)
	}
	n.Min = max(n.Min, sum)
	return n
}

// without returns how many pods are needed in addition to the given pods.
func (n need) without(pods []*corev1.Pod) need {
	left := need{Min: max(0, n.Min-len(pods)), Roles: map[string]int{}}
	there := map[string]int{}
	for _, pod := range pods {
		there[pod.Labels[v1beta1.LabelRole]]++
	}
	for role, min := range n.Roles {
		left.Roles[role] = max(0, min-there[role])
	}
	return left
}

// hasRoles reports whether pods of specific roles are needed.
func (n need) hasRoles() bool {
	for _, min := range n.Roles {
		if min > 0 {
			return true
		}
	}
	return false
}

// isMet reports whether no more pods are needed.
func (n need) isMet() bool { return n.Min == 0 && !n.hasRoles() }

// pick returns the first pods that meet the need, and all other pods. If the pods cannot meet the need, pick returns
// nil and all pods.
func (n need) pick(pods []*corev1.Pod) (picked, others []*corev1.Pod) {
	left := need{Min: n.Min, Roles: maps.Clone(n.Roles)}
	taken := make([]bool, len(pods))
	take := func(i int) {
		taken[i] = true
		picked = append(picked, pods[i])
		left.Min--
	}
	for i, pod := range pods {
		if role := pod.Labels[v1beta1.LabelRole]; left.Roles[role] > 0 {
			left.Roles[role]--
			take(i)
		}
	}
	for i := range pods {
		if !taken[i] && left.Min > 0 {
			take(i)
		}
	}
	if !left.isMet() {
		return nil, pods
	}
	for i, pod := range pods {
		if !taken[i] {
			others = append(others, pod)
		}
	}
	return picked, others
}
