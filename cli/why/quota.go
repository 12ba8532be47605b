package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// lacking matches the resource in the message about the quota of a Queue.
var lacking = regexp.MustCompile(`not enough (\S+) left in the quota`)

// quotaExceeded returns the entry for a job that waits for the quota of its Queue.
func quotaExceeded(v view, c condition) entry {
	e := entry{
		cause: "The quota of Queue {queue} has no room for the job: {message}.",
		do:    "Wait until other jobs of the queue end, request less, or ask an administrator for a larger quota.",
		next:  []step{describeQueue, listGroups}, fix: "request less", see: seeQueue,
	}
	found := lacking.FindStringSubmatch(c.message)
	if found == nil {
		return e
	}
	name := corev1.ResourceName(found[1])
	needs := v.needs(name)
	e.cause = fmt.Sprintf("The quota of Queue {queue} has too little %s left", name)
	if !needs.IsZero() {
		e.cause += fmt.Sprintf(": the job needs %s at the same time", needs.String())
	}
	e.cause += "."
	if v.Queue != nil && v.Queue.Spec.Quota != nil {
		limit, used := v.Queue.Spec.Quota.Requests[name], v.Queue.Status.Allocated[name]
		if needs.Cmp(limit) > 0 {
			e.cause = fmt.Sprintf("The job needs %s %s at the same time, and the whole quota of Queue {queue} has %s.",
				needs.String(), name, limit.String())
			e.do = "So the job can never run. Request less, or ask an administrator for a larger quota."
			e.next = []step{describeQueue}
			return e
		}
		e.cause += fmt.Sprintf(" Of the quota of %s, %s are in use%s.", limit.String(), used.String(), v.heldBy(name))
	}
	e.cause += v.place()
	return e
}

// needs returns how much of a resource the pods of the job request at the same time. It returns 0 for an elastic job,
// and if the pods cannot be previewed.
func (v view) needs(name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	if v.spec.Elastic != nil { // an elastic job can start with only some of its replicas
		return sum
	}
	installed, err := v.Job.Kind.Released()
	if err != nil {
		return sum
	}
	preview, err := v.Job.Preview(installed) // the preview has the containers that the controller adds
	if err != nil {
		return sum
	}
	for _, object := range preview.Admitted {
		if pod, ok := object.(*corev1.Pod); ok {
			sum.Add(requestsOf(&pod.Spec)[name])
		}
	}
	return sum
}

// heldBy names up to two PodGroups of the Queue that hold the most of a resource, as part of a sentence.
func (v view) heldBy(name corev1.ResourceName) string {
	holders := slices.Clone(v.Rivals)
	slices.SortStableFunc(holders, func(a, b rival) int {
		return cmp.Or(b.Status.Allocated.Name(name, resource.DecimalSI).Cmp(*a.Status.Allocated.Name(name,
			resource.DecimalSI)),
			cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	var names []string
	for _, group := range holders[:min(len(holders), 2)] {
		if held := group.Status.Allocated.Name(name, resource.DecimalSI); !held.IsZero() {
			names = append(names, fmt.Sprintf("%s by %s/%s", held.String(), group.Namespace, group.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", " + listed(names)
}
