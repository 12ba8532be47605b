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
	"k8s.io/apimachinery/pkg/util/validation"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// imagePull returns the entry of an image that cannot be pulled.
func imagePull(v view, c condition) entry {
	s := v.stuck
	if s == nil || s.reason != batchv1beta1.ReasonImagePull {
		return entry{
			cause: "An image cannot be pulled: " + quote(withoutCount(c.message)) + ".",
			do:    "Check the name of the image, its registry, and the imagePullSecrets of the template.",
			next:  []step{describePod}, fix: "correct the image", see: seePending,
		}
	}
	words := registryWords(s.message)
	if words == "" {
		if event := v.eventOf(s.pod.Name, "Failed"); event != nil {
			words = registryWords(event.Message)
		}
	}
	words = strings.TrimPrefix(words, clean(s.image)+": ")
	e := entry{
		cause: "The image {image} of container {container} in pod {pod} cannot be pulled" + v.sameFor(),
		next:  []step{describePod}, see: seePending,
	}
	if words != "" {
		e.cause += ": " + words
	}
	e.cause += "."
	if s.container == waitContainer {
		e.do = "This image is the controller's own. Ask an administrator to let the namespace pull it."
		e.next = append(e.next, findController)
		return e
	}
	listSecrets := step{
		purpose: "List the secrets for registries that the namespace has",
		line:    "kubectl get secrets --field-selector type=kubernetes.io/dockerconfigjson",
	}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool {
			return strings.Contains(strings.ToLower(words+" "+s.word), part)
		})
	}
	switch {
	case has("invalidimagename", "invalid reference format"):
		e.do = "The name is not valid. Correct it."
	case has("errimageneverpull"):
		e.do = "Its imagePullPolicy is Never, and the node does not have the image. Use another policy, or another image."
	case has("toomanyrequests", "429", "rate limit"):
		e.do = "The registry limits how often it is asked. Wait, or log in with a secret that the template names in " +
			"imagePullSecrets."
		e.next = append(e.next, listSecrets)
	case has("no such host", "i/o timeout", "connection refused", "deadline exceeded", "x509", "tls"):
		e.do = "The node cannot reach the registry. Check the name of the registry, and ask an administrator whether the " +
			"nodes may reach it."
	case has("no match for platform"):
		e.do = "The image is not for the kind of CPU that the node has. Use another image."
	case has("denied", "unauthorized", "authorization", "forbidden", "401", "403"):
		e.do = "Either there is no such image, or the registry needs a login. Check the name. For a login, create a " +
			"secret and name it in imagePullSecrets of the template."
		e.next = append(e.next, listSecrets)
	case has("not found", "manifest unknown"):
		e.do = "The registry has no image of this name and tag. Correct the name or the tag."
	default:
		e.do = "Check the name of the image, its registry, and the imagePullSecrets of the template."
		e.next = append(e.next, listSecrets)
	}
	e.fix = "correct the image"
	return e
}

// waitContainer is the init container that waits for the host names of other replicas.
const waitContainer = "wait-for-peers"

// sameFor returns that other pods have the same problem, as part of a sentence.
func (v view) sameFor() string {
	switch n := v.stuck.others; n {
	case 0:
		return ""
	case 1:
		return " (and 1 other pod waits for the same reason)"
	default:
		return fmt.Sprintf(" (and %d other pods wait for the same reason)", n)
	}
}

// pullNoise matches the parts of messages about images that repeat the name of the image or name the runtime.
var pullNoise = regexp.MustCompile(`^(rpc error: code = \w+ desc = |[Ff]ailed to pull and unpack image "[^"]*": |` +
	`[Ff]ailed to resolve reference "[^"]*": |[Ff]ailed to resolve image: |[Ff]ailed to pull image "[^"]*": |` +
	`[Ff]ailed to do request: |(?:Head|Get) "[^"]*": |Error response from daemon: |[Ff]ailed to copy: )`)

// registryWords returns the part of a message about an image that explains the problem. It is empty if the message only
// repeats that the image cannot be pulled.
func registryWords(message string) string {
	message = clean(message)
	if i := strings.LastIndex(message, "ErrImagePull: "); i >= 0 {
		message = message[i+len("ErrImagePull: "):]
	}
	for {
		rest := pullNoise.ReplaceAllString(message, "")
		if rest == message {
			break
		}
		message = rest
	}
	if strings.HasPrefix(message, "Back-off pulling image") || message == "Error: ErrImagePull" ||
		message == "Error: ImagePullBackOff" {
		return ""
	}
	return quote(message)
}

// startWords returns the part of a message about a container that explains why it cannot start.
func startWords(message string) string {
	message = clean(message)
	if i := strings.Index(message, `exec: "`); i >= 0 {
		message = message[i:]
	}
	return quote(strings.TrimSuffix(message, ": unknown"))
}

// missing matches the message about a Secret or a ConfigMap that does not exist.
var missing = regexp.MustCompile(`\b(secret|configmap|persistentvolumeclaim|serviceaccount) "([^"]+)" not found`)

// missingKey matches the message about a key that a Secret or a ConfigMap does not have.
var missingKey = regexp.MustCompile(`couldn't find key ([\w.-]+) in (Secret|ConfigMap) (?:[^/\s]+/)?(\S+)`)

// containerConfig returns the entry of a container that cannot be created or started.
func containerConfig(v view, c condition) entry {
	e := entry{
		cause: sentence(withoutCount(c.message)) + ".", next: []step{describePod}, see: seePending,
	}
	message := c.message
	if s := v.stuck; s != nil && s.reason == batchv1beta1.ReasonContainerConfig {
		message = s.message
		e.cause = "Container {container} in pod {pod} cannot start" + v.sameFor() + ": " + startWords(message) + "."
	}
	if needs := missingObject(message); needs != nil {
		return *needs
	}
	e.do = "Check the command of the container, and whether the image has it."
	e.fix = "correct the container"
	return e
}

// missingObject returns the entry of a pod that needs an object which does not exist, or a key that the object does not
// have. It is nil if the message is about something else.
func missingObject(message string) *entry {
	kinds := map[string]string{
		"secret": "Secret", "configmap": "ConfigMap", "persistentvolumeclaim": "PersistentVolumeClaim",
		"serviceaccount": "ServiceAccount",
	}
	message = clean(message)
	if found := missing.FindStringSubmatch(message); found != nil && isName(found[2]) {
		kind, name := kinds[found[1]], found[2]
		return &entry{
			cause: fmt.Sprintf("The pods of the job need the %s %s, which does not exist in the namespace {namespace}.", kind,
				name),
			do: "Create it, and the job continues automatically. Or correct its name in the template.",
			next: []step{{
				purpose: "List the " + kind + "s of the namespace", line: "kubectl get " + found[1] + "s",
			}, describeJob},
			fix: "correct the name of the " + kind, see: seePending,
		}
	}
	if found := missingKey.FindStringSubmatch(message); found != nil && isName(found[3]) {
		kind, name := found[2], found[3]
		return &entry{
			cause: fmt.Sprintf("The pods of the job need the key %s of the %s %s, which does not have it.", found[1], kind,
				name),
			do: "Add the key, and the job continues automatically. Or correct the key in the template.",
			next: []step{{
				purpose: "See which keys it has", line: "kubectl describe " + strings.ToLower(kind) + " " + name,
			}, describeJob},
			fix: "correct the key", see: seePending,
		}
	}
	return nil
}

// isName reports whether a word can be the name of an object, so that it can be part of a command.
func isName(word string) bool {
	return word != "" && len(validation.IsDNS1123Subdomain(word)) == 0
}

// The reasons of the events of a pod that cannot start, and of one that is starting. The newest event decides.
var (
	troubles = []string{
		"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady",
	}
	steps = []string{"Pulling", "Pulled", "Created", "Started", "SuccessfulAttachVolume"}
)

// starting returns the entry of a job whose pods have nodes and are starting.
func starting(v view, c condition) entry {
	e := entry{
		cause: "A pod waits: " + quote(withoutCount(c.message)) + ".",
		do:    "Usually, it is enough to wait: pulling a large image takes minutes.",
		next:  []step{watchJob, describePod}, see: seePending,
	}
	s := v.stuck
	if s == nil {
		return e
	}
	if strings.HasSuffix(c.message, " is starting") {
		e.cause = "Pod {pod} is starting" + v.sameFor() + "."
	}
	last := v.eventOf(s.pod.Name, slices.Concat(troubles, steps)...)
	if last != nil && slices.Contains(troubles, last.Reason) {
		if needs := missingObject(last.Message); needs != nil {
			return *needs
		}
		e.cause = fmt.Sprintf("Pod {pod} has a node, but cannot start%s: %s.", v.sameFor(), quote(last.Message))
		e.do = "The kubelet tries it again."
		e.next = []step{describePod}
		return e
	}
	for _, status := range s.pod.Status.InitContainerStatuses {
		switch {
		case status.State.Running == nil || status.Started != nil && *status.Started && isSidecar(s.pod, status.Name):
		case status.Name == waitContainer:
			e.cause = "Pod {pod} waits for its peers: its init container wait-for-peers waits until their host names resolve, " +
				"for at most 10 minutes."
			e.do = "The peers need nodes and IP addresses first. If they have them, its log shows which name does not resolve."
			e.next = []step{listPods, {
				purpose: "See which host name does not resolve",
				line:    "kubectl logs {pod} -c " + waitContainer,
			}}
			return e
		default:
			e.cause = fmt.Sprintf("Pod {pod} runs its init container %s%s.", clean(status.Name), v.sameFor())
			e.do = "The training begins when the init container has ended."
			e.next = []step{
				{purpose: "Read its output", line: "kubectl logs {pod} -c " + printable.Quoted(clean(status.Name))},
				describePod,
			}
			return e
		}
	}
	if last != nil && last.Reason == "Pulling" {
		e.cause = fmt.Sprintf("Pod {pod} has a node, and began to pull its image %s%s.", v.ago(seen(*last)), v.sameFor())
		e.do = "Large images take minutes. Wait."
	}
	return e
}

// isSidecar reports whether an init container is a sidecar, which runs for the whole life of the pod.
func isSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// unschedulable returns the entry of pods that fit on no node.
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
		e.next, e.see = []step{listPods, describePod}, "docs/host-network.md#ports"
	}
	if elastic := v.spec.Elastic; elastic != nil && elastic.Expected() > elastic.Least() && e.fix != "" {
		e.fix = ""
		e.next = append(e.next, step{
			purpose: "Or let the job run with fewer replicas", line: fmt.Sprintf("kubectl train scale {job} %d",
				elastic.Least()),
		})
	}
	return e
}

// partiallyRunning returns the entry of an elastic job that trains with fewer replicas than it expects.
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

// othersUnschedulable returns that other pods wait, too, as part of a sentence.
func (v view) othersUnschedulable() string {
	if v.stuck == nil || v.stuck.word != corev1.PodReasonUnschedulable {
		return ""
	}
	return v.sameFor()
}

// asks returns a sentence with the resources that each pod requests.
func (v view) asks() string {
	var spec *corev1.PodSpec
	if _, template := v.leader(); template != nil {
		spec = &template.Spec
	}
	if v.stuck != nil {
		spec = &v.stuck.pod.Spec
	}
	if spec == nil {
		return ""
	}
	words := resourceWords(requestsOf(spec))
	if words == "" {
		return ""
	}
	return " The pod requests " + words + "."
}

// requestsOf returns the sum of the requests of the containers of a pod. A container without a request for a resource
// requests its limit.
func requestsOf(spec *corev1.PodSpec) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range spec.Containers {
		of := corev1.ResourceList{}
		maps.Copy(of, c.Resources.Limits)
		maps.Copy(of, c.Resources.Requests)
		for name, quantity := range of {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	if spec.Resources != nil {
		maps.Copy(sum, spec.Resources.Requests)
	}
	return sum
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

// taint matches the scheduler's words about a taint, with the key of the taint.
var taint = regexp.MustCompile(`^node\(s\) had untolerated taint(?:\(s\))?(?: \{([^:}]*)[^}]*\})?`)

// schedulerWords returns the message of a scheduler about a pod in plain words. It returns the message itself, without
// the part about preemption, if it has another form.
func schedulerWords(message string) string {
	message = clean(message)
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

// singular returns the predicate of a sentence about several nodes for one node.
func singular(words string) string {
	verb, rest, _ := strings.Cut(words, " ")
	one := map[string]string{"have": "has", "are": "is", "do": "does", "lack": "lacks"}[verb]
	return cmp.Or(one, verb) + " " + rest
}

// rankOf returns the position of words about nodes: too few resources come first, since a user can request less.
func rankOf(words string) int {
	if strings.Contains(words, "too little") {
		return 0
	}
	return 1
}

// nodeWords returns why a node does not take a pod, as the predicate of a sentence after the number of nodes.
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

// needed matches the object that a job needs in the message of a name conflict.
var needed = regexp.MustCompile(`needs (\w+) (\S+?), but`)

// nameConflict returns the entry of a name that is taken.
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

// notInstalled returns the entry of a job whose queue has no controller.
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
			}, see: "docs/kueue.md#without-kueue",
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

// exceeded matches the message of the API server about a ResourceQuota that has no room.
var exceeded = regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)

// unspecified matches the message of the API server about a ResourceQuota that requires requests or limits.
var unspecified = regexp.MustCompile(`failed quota: (\S+): must specify (.+)`)

// createFailed returns the entry of an object that the API server rejects.
func createFailed(_ view, c condition) entry {
	e := entry{
		cause: "The API server rejects an object that the job needs: {message}.",
		do:    "The controller tries it again at least every minute.",
		next:  []step{describeJob}, see: seePending,
	}
	message := clean(c.message)
	if found := exceeded.FindStringSubmatch(message); found != nil {
		quota := strings.TrimRight(found[1], ",")
		e.cause = fmt.Sprintf("The ResourceQuota %s of the namespace {namespace} has no room for another pod: %s.", quota,
			quotaWords(found[2], found[3], found[4]))
		e.do = "Wait until other jobs of the namespace end, request less, or ask an administrator for a larger quota. " +
			"The job continues automatically when there is room."
		e.next = []step{{purpose: "See what the quota allows, and how much of it is in use", line: "kubectl describe " +
			"resourcequotas"}}
		if isName(quota) {
			e.next[0].line = "kubectl describe resourcequota " + quota
		}
		e.next = append(e.next, step{purpose: "See the jobs of the namespace", line: "kubectl train list"})
		e.fix = "request less"
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

// quotaWords returns the resources of a ResourceQuota that have no room, for a sentence.
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

// lacking matches the resource in the message about the quota of a Queue.
var lacking = regexp.MustCompile(`not enough (\S+) left in the quota`)

// quotaExceeded returns the entry of a job that waits for the quota of its Queue.
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
	e.cause = fmt.Sprintf("The quota of Queue {queue} has too little %s left for the job.", name)
	if needs := v.needs(name); !needs.IsZero() {
		e.cause = fmt.Sprintf("The quota of Queue {queue} has too little %s left: the job needs %s at the same time.", name,
			needs.String())
	}
	if v.Queue != nil && v.Queue.Spec.Quota != nil {
		limit, used := v.Queue.Spec.Quota.Requests[name], v.Queue.Status.Allocated[name]
		e.cause += fmt.Sprintf(" Of the quota of %s, %s are in use%s.", limit.String(), used.String(), v.heldBy(name))
	}
	e.cause += v.place()
	return e
}

// needs returns how much of a resource the replicas of the job need at the same time.
func (v view) needs(name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	if v.spec.Elastic != nil { // only some of its replicas are needed
		return sum
	}
	for _, role := range v.spec.Roles {
		if role.Template == nil {
			continue
		}
		each := requestsOf(&role.Template.Spec)[name]
		each.Mul(int64(role.Replicas))
		sum.Add(each)
	}
	return sum
}

// heldBy names the groups that hold most of a resource, as part of a sentence.
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
