// Package quota determines whether the pods of a job fit in a ResourceQuota, together with the pods of older jobs
// that wait.
package quota

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Refusal is the error of the API server about an object that it rejected because a ResourceQuota has no room for it.
type Refusal struct {
	// Object is the name of the object, such as a pod, and Quota is the name of the ResourceQuota.
	Object, Quota string
	// Requested contains the requests of the object. The field Used contains the current usage, and Limited contains the
	// limits. Each is a list of the form cpu=1,pods=2, and contains only the resources whose limits the object would
	// exceed.
	Requested, Used, Limited string
}

// exceeded matches the message of the API server about a ResourceQuota that has no room for an object.
var exceeded = regexp.MustCompile(`"(\S+)" is forbidden: ` +
	`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)

// ParseRefusal returns the refusal in a message of the API server. It returns false if the message has none.
func ParseRefusal(message string) (Refusal, bool) {
	found := exceeded.FindStringSubmatch(message)
	if found == nil {
		return Refusal{}, false
	}
	return Refusal{Object: found[1], Quota: found[2], Requested: found[3], Used: found[4], Limited: found[5]}, true
}

// Requests returns Requested as a ResourceList. It skips entries that it cannot parse.
func (r Refusal) Requests() corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range strings.SplitSeq(r.Requested, ",") {
		name, value, _ := strings.Cut(pair, "=")
		if quantity, err := resource.ParseQuantity(value); err == nil {
			list[corev1.ResourceName(name)] = quantity
		}
	}
	return list
}

// UsageOf returns the usage of a pod as a ResourceQuota counts it. The keys are names of resources as in a
// ResourceQuota, such as requests.cpu.
func UsageOf(pod *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	usage := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		usage[name], usage["requests."+name] = quantity, quantity
	}
	for name, quantity := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		usage["limits."+name] = quantity
	}
	return usage
}

// Add adds the usage of a number of pods to a sum. Each of the pods has the given usage.
func Add(sum, usage corev1.ResourceList, pods int64) {
	for name, quantity := range usage {
		total, more := sum[name], quantity.DeepCopy()
		more.Mul(pods)
		total.Add(more)
		sum[name] = total
	}
}

// Free returns how much of the limits of a ResourceQuota is not in use.
func Free(quota *corev1.ResourceQuota) corev1.ResourceList {
	free := corev1.ResourceList{}
	for name, limit := range quota.Status.Hard {
		limit = limit.DeepCopy() // copy the quantity, because the ResourceQuota can be from a cache
		limit.Sub(quota.Status.Used[name])
		free[name] = limit
	}
	return free
}

// fits reports whether the needs fit into the free resources. A resource without an entry in free is not limited.
func fits(needs, free corev1.ResourceList) bool {
	for name, left := range free {
		if needed, ok := needs[name]; ok && needed.Cmp(left) > 0 {
			return false
		}
	}
	return true
}
