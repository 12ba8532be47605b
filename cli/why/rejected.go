package why

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"tensorstack.dev/jobs/common/quota"
)

// needed matches the kind and the name of the object that a job needs, in the message about a name conflict.
var needed = regexp.MustCompile(`needs (\w+) (\S+?), but`)

// nameConflict returns the entry for a job that needs an object with a name that another object has.
func nameConflict(_ view, c condition) entry {
	e := entry{
		cause: "An object has a name that the job needs: {message}.",
		do: "If nobody needs the object, delete it or its owner, and the job continues automatically. Otherwise, create " +
			"the job under another name.",
		next: []step{describeJob}, see: seePending,
	}
	if found := needed.FindStringSubmatch(c.message); found != nil && isName(found[2]) {
		kind := cmp.Or(map[string]string{
			"podgroup": "podgroups.scheduler.tensorstack.dev", "workload": "workloads.kueue.x-k8s.io",
			"tensorboard": "tensorboards.tensorstack.dev",
		}[found[1]], found[1])
		e.next = []step{{
			purpose: "See the object, and whom it belongs to", line: fmt.Sprintf("kubectl describe %s %s", kind, found[2]),
		}, {purpose: "Delete the job, to create it under another name", line: "kubectl train delete {job}"}}
	}
	return e
}

// notInstalled returns the entry for a job with a queue in a cluster that lacks the controller of such queues: Kueue
// or the scheduler-controller.
func notInstalled(v view, _ condition) entry {
	if v.spec.T9kScheduler() == nil {
		return entry{
			cause: "The job is for LocalQueue {queue} of Kueue, but Kueue is not installed, or is too old: {message}.",
			do: "Ask an administrator to install it. To run the job without a queue, delete it, and create it again without " +
				"the label kueue.x-k8s.io/queue-name.",
			next: []step{
				{
					purpose: "See whether Kueue is installed", line: "kubectl api-resources --api-group=kueue.x-k8s.io",
					ofCluster: true,
				},
				{purpose: "Delete the job, to create it again without a queue", line: "kubectl train delete {job}"},
			}, see: seeNoKueue,
		}
	}
	return entry{
		cause: "The job is for Queue {queue}, but this cluster has no queues, because the scheduler-controller is not " +
			"installed.",
		do: "Ask an administrator to install it. A job never runs outside its queue. To run it without one, delete the " +
			"job, and create it again without spec.scheduler.",
		next: []step{
			{
				purpose: "See whether queues are installed", line: "kubectl api-resources --api-group=scheduler.tensorstack.dev",
				ofCluster: true,
			},
			{purpose: "Delete the job, to create it again without a queue", line: "kubectl train delete {job}"},
		}, see: seePending,
	}
}

// unspecified matches the message of the API server about a ResourceQuota that requires requests or limits.
var unspecified = regexp.MustCompile(`failed quota: (\S+): must specify (.+)`)

// quotaRefuses returns the entry for a job that waits for a ResourceQuota.
func quotaRefuses(_ view, c condition) entry {
	e := entry{
		cause: "The job waits for a ResourceQuota of the namespace {namespace}: {message}.",
		do: "Wait until other jobs of the namespace end, request less, or ask an administrator for a larger quota. " +
			"The job continues automatically when there is room for all of its pods.",
		next: []step{
			{purpose: "See what the quota allows, and how much of it is in use", line: "kubectl describe resourcequotas"},
			{purpose: "See the jobs of the namespace", line: "kubectl train list"},
		},
		fix: "request less", see: seeQuotas,
	}
	if refusal, ok := quota.ParseRefusal(clean(c.message)); ok {
		e.cause = fmt.Sprintf("The ResourceQuota %s of the namespace {namespace} has no room for another pod: %s.",
			refusal.Quota, quotaWords(refusal.Requested, refusal.Used, refusal.Limited))
		if isName(refusal.Quota) {
			e.next[0].line = "kubectl describe resourcequota " + refusal.Quota
		}
	}
	return e
}

// createFailed returns the entry for an object that the API server rejects.
func createFailed(v view, c condition) entry {
	e := entry{
		cause: "The API server rejects an object that the job needs: {message}.",
		do:    "The controller tries it again at least every minute.",
		next:  []step{describeJob}, see: seePending,
	}
	message := clean(c.message)
	if _, ok := quota.ParseRefusal(message); ok {
		return quotaRefuses(v, c)
	}
	if strings.Contains(message, "which the controller adds: ") {
		e.do = "The template cannot change this container. Do what the end of the message describes."
		return e
	}
	switch found := unspecified.FindStringSubmatch(message); {
	case found != nil:
		e.cause = fmt.Sprintf("The ResourceQuota %s of the namespace {namespace} requires that each container specifies %s.",
			found[1], quote(found[2]))
		e.do = "Add these to the template."
		e.next = []step{{purpose: "See what the quota is about", line: "kubectl describe resourcequotas"}}
		e.fix = "add the requests and limits"
	case strings.Contains(message, "violates PodSecurity"):
		_, violation, _ := strings.Cut(message, "violates PodSecurity ")
		e.cause = "The Pod Security level of the namespace {namespace} forbids the pods of the job: " + quote(violation) + "."
		e.do = "Change the template as the message describes, or ask an administrator for another level."
		e.next = []step{describeJob, {
			purpose: "See the Pod Security level of the namespace", line: "kubectl get namespace {namespace} --show-labels",
			ofCluster: true,
		}}
		e.fix = "change the securityContext as the message describes"
	case strings.Contains(message, "failed calling webhook"):
		e.cause = "A webhook of the cluster does not answer, so the API server rejects the pods of the job: {message}."
		e.do = "Only an administrator can fix this. The job continues automatically then."
	case missingObject(message) != nil:
		return *missingObject(message)
	case strings.Contains(message, "denied the request"), strings.Contains(message, "is forbidden"),
		strings.Contains(message, "is invalid"):
		e.do = "Change the template as the message describes, or ask an administrator about the policy."
		e.fix = "change the template as the message describes"
	}
	return e
}

// quotaWords describes the resources that have no room in a ResourceQuota, for a sentence. Each argument is a list
// such as "cpu=2,memory=4Gi".
func quotaWords(requested, used, limited string) string {
	values := func(list string) map[string]string {
		m := map[string]string{}
		for pair := range strings.SplitSeq(strings.TrimRight(list, ",."), ",") {
			name, value, _ := strings.Cut(pair, "=")
			m[name] = value
		}
		return m
	}
	use, limit := values(used), values(limited)
	var words []string
	for pair := range strings.SplitSeq(strings.TrimRight(requested, ","), ",") {
		name, value, _ := strings.Cut(pair, "=")
		words = append(words, fmt.Sprintf("%s of %s %s are in use, and the pod needs %s",
			cmp.Or(use[name], "?"), cmp.Or(limit[name], "?"), name, value))
	}
	return listed(words)
}
