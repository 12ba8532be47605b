package why

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// unschedulable returns the entry for pods that fit on no node.
func unschedulable(v view, c condition) entry {
	message := withoutCount(c.message)
	if s := v.stuck; s != nil && s.word == corev1.PodReasonUnschedulable && s.message != "" {
		message = s.message
	}
	e := entry{
		cause: "No node can take pod {pod}" + v.othersUnschedulable() + ". " + schedulerWords(message) + v.asks(),
		do:    "Request less, or wait until other jobs end, or ask for more nodes.",
		next:  []step{describeNodes, listJobs}, fix: "request less", see: seePending,
	}
	tooMuch := v.asksTooMuch()
	if tooMuch != "" {
		e.cause = sentences(e.cause, tooMuch)
		e.do = "It does not help to wait, unless the cluster gets larger nodes. Request less, or ask for such nodes."
		e.next = []step{describeNodes}
	}
	switch {
	case strings.Contains(message, "unbound immediate PersistentVolumeClaims"):
		e.do = "A PersistentVolumeClaim of the job is not bound: its storage class might not exist or have no space."
		e.next, e.fix = []step{
			{purpose: "See which claims are not bound", line: "kubectl get persistentvolumeclaims"}, describePod,
		}, ""
	case missingObject(message) != nil:
		return *missingObject(message)
	case strings.Contains(message, "free ports"):
		e.do = "With hostNetwork, two pods with the same port cannot share a node."
		e.next, e.see = []step{listPods, describePod}, seePorts
	}
	if elastic := v.spec.Elastic; tooMuch == "" && elastic != nil && elastic.Expected() > elastic.Least() && e.fix != "" {
		e.fix = ""
		e.next = append(e.next, step{
			purpose: "Or let the job run with fewer replicas", line: fmt.Sprintf("kubectl train scale {job} %d",
				elastic.Least()),
		})
	}
	return e
}

// partiallyRunning returns the entry for an elastic job that trains with fewer replicas than it expects.
func partiallyRunning(v view, c condition) entry {
	running, all := v.counts()
	cause := fmt.Sprintf("The job is elastic, and trains with %d of %d replicas.", running, all)
	e := entry{cause: "The others wait: {message}.", see: seeElastic}
	if s := v.stuck; s != nil {
		waits := map[string]func(view, condition) entry{
			batchv1beta1.ReasonUnschedulable: unschedulable, batchv1beta1.ReasonImagePull: imagePull,
			batchv1beta1.ReasonContainerConfig: containerConfig, batchv1beta1.ReasonPending: starting,
		}[s.reason]
		e = waits(v, c)
	}
	e.cause = sentences(cause, e.cause)
	e.next = append([]step{{purpose: "Follow the output of the job", line: "kubectl train logs {job} -f"}}, e.next...)
	return e
}

// othersUnschedulable returns how many other pods are also unschedulable, as part of a sentence.
func (v view) othersUnschedulable() string {
	if v.stuck == nil || v.stuck.word != corev1.PodReasonUnschedulable {
		return ""
	}
	return v.sameFor()
}

// asks returns a sentence with the resources that the waiting pod requests. If no pod waits, the sentence has the
// requests of the leader.
func (v view) asks() string {
	words := resourceWords(v.requests())
	if words == "" {
		return ""
	}
	return " The pod requests " + words + "."
}

// asksTooMuch returns a sentence if the waiting pod requests more of a resource than any node has in total. If no pod
// waits, it compares the requests of the leader. If the pod requests too much of several resources, the sentence is
// about the first by name. The result is empty if there is no such resource, or if the nodes are not known.
func (v view) asksTooMuch() string {
	if len(v.Nodes) == 0 {
		return ""
	}
	requests := v.requests()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request, largest := requests[name], resource.Quantity{}
		for _, node := range v.Nodes {
			if has := node.Status.Allocatable[name]; has.Cmp(largest) > 0 {
				largest = has
			}
		}
		switch {
		case request.Cmp(largest) <= 0:
		case largest.IsZero():
			return fmt.Sprintf("No node has %s at all.", name)
		default:
			return fmt.Sprintf("No node has so much %s in total: the largest has %s.", name, largest.String())
		}
	}
	return ""
}

// requests returns the resources that the waiting pod requests. If no pod waits, it returns those that the leader
// requests.
func (v view) requests() corev1.ResourceList {
	if v.stuck != nil {
		return requestsOf(&v.stuck.pod.Spec)
	}
	if _, template := v.leader(); template != nil {
		return requestsOf(&template.Spec)
	}
	return nil
}

// requestsOf returns the resources that a pod requests. If a container has a limit for a resource but no request, the
// limit counts as the request.
func requestsOf(spec *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			of := corev1.ResourceList{}
			maps.Copy(of, containers[i].Resources.Limits)
			maps.Copy(of, containers[i].Resources.Requests)
			containers[i].Resources.Requests = of
		}
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// resourceWords returns resources for a sentence, such as "cpu=2, memory=8Gi and nvidia.com/gpu=1".
func resourceWords(list corev1.ResourceList) string {
	var words []string
	for name, quantity := range list {
		if !quantity.IsZero() {
			words = append(words, fmt.Sprintf("%s=%s", name, quantity.String()))
		}
	}
	slices.Sort(words)
	return listed(words)
}

// taint matches the part of a scheduler's message that is about a taint. Its group is the key of the taint.
var taint = regexp.MustCompile(`^node\(s\) had untolerated taint(?:\(s\))?(?: \{([^:}]*)[^}]*\})?`)

// schedulerWords returns the message of a scheduler about a pod in plain words. If the message does not have the
// usual form, the result quotes it without the part about preemption.
func schedulerWords(message string) string {
	message = policy.SchedulerMessage(clean(message))
	if message == "" {
		return "The scheduler reports no reason."
	}
	for _, noise := range []string{". no new claims to deallocate", ". preemption: ", " preemption: "} {
		message, _, _ = strings.Cut(message, noise)
	}
	message = strings.TrimRight(message, ".")
	before, reasons, ok := strings.Cut(message, " nodes are available: ")
	start := strings.LastIndexByte(before, ' ') + 1
	free, all, isCount := strings.Cut(before[start:], "/")
	if !ok || !isCount || free != "0" {
		return "The scheduler reports: " + quote(message) + "."
	}
	var parts []string
	for part := range strings.SplitSeq(reasons, ", ") {
		if len(parts) > 0 && (part == "" || part[0] < '0' || part[0] > '9') {
			parts[len(parts)-1] += ", " + part
			continue
		}
		parts = append(parts, part)
	}
	var words []string
	for _, part := range parts {
		number, reason, ok := strings.Cut(part, " ")
		if !ok || strings.Trim(number, "0123456789") != "" {
			return "The scheduler reports: " + quote(reasons) + "."
		}
		word := nodeWords(reason)
		if number == "1" {
			word = singular(word)
		}
		switch {
		case all == "1":
			words = append(words, word)
		case number == all && len(parts) == 1:
			return fmt.Sprintf("All %s nodes %s.", all, word)
		default:
			words = append(words, number+" "+word)
		}
	}
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	if all == "1" {
		return fmt.Sprintf("The only node %s.", listed(words))
	}
	return fmt.Sprintf("Of the %s nodes, %s.", all, listed(words))
}

// singular turns the predicate of a sentence about several nodes into one about a single node.
func singular(words string) string {
	verb, rest, _ := strings.Cut(words, " ")
	one := map[string]string{"have": "has", "are": "is", "do": "does", "lack": "lacks"}[verb]
	return cmp.Or(one, verb) + " " + rest
}

// rankOf returns the sort key of a predicate that nodeWords has returned. Predicates about too few resources come
// first, because the user can request less.
func rankOf(words string) int {
	if strings.Contains(words, "too little") {
		return 0
	}
	return 1
}

// nodeWords returns the scheduler's reason why nodes do not take a pod, as the predicate of a sentence about several
// nodes, such as "have too little cpu left".
func nodeWords(reason string) string {
	if resource, ok := strings.CutPrefix(reason, "Insufficient "); ok {
		return "have too little " + resource + " left"
	}
	if found := taint.FindStringSubmatch(reason); found != nil {
		if found[1] == "" {
			return "have a taint that the job does not tolerate"
		}
		return "have the taint " + found[1] + ", which the job does not tolerate"
	}
	for _, known := range []struct{ part, words string }{
		{"didn't match Pod's node affinity/selector", "do not match the node selector or the affinity of the job"},
		{"were unschedulable", "are closed for new pods (cordoned)"},
		{"didn't have free ports", "have no free port for the pod"},
		{"had volume node affinity conflict", "cannot reach the volume of the job"},
		{"exceed max volume count", "have no room for another volume"},
		{"Too many pods", "have no room for another pod"},
		{"didn't match pod topology spread constraints", "do not match the topology spread constraints of the job"},
		{"didn't match pod anti-affinity rules", "have a pod that the job must not share a node with"},
		{"didn't match pod affinity rules", "lack a pod that the job must share a node with"},
		{"didn't satisfy plugin", "are refused by a plugin of the scheduler"},
		{"cannot allocate all claims", "lack a device that a ResourceClaim of the job requests"},
	} {
		if strings.Contains(reason, known.part) {
			return known.words
		}
	}
	return "do not fit: " + strings.TrimPrefix(reason, "node(s) ")
}
