package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/shell"
)

// waitContainer is the init container that waits for the host names of other replicas.
const waitContainer = "wait-for-peers"

// sameFor returns how many other pods wait for the same reason as the pod in v.stuck, as part of a sentence. The
// result is empty if there are none.
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

// startWords returns the part of a message about a container that explains why it cannot start.
func startWords(message string) string {
	message = clean(message)
	if i := strings.Index(message, `exec: "`); i >= 0 {
		message = message[i:]
	}
	return quote(strings.TrimSuffix(message, ": unknown"))
}

// missing matches the message about a Secret, ConfigMap, PersistentVolumeClaim or ServiceAccount that does not exist.
var missing = regexp.MustCompile(`\b(secret|configmap|persistentvolumeclaim|serviceaccount) "([^"]+)" not found`)

// missingKey matches the message about a key that a Secret or a ConfigMap does not have.
var missingKey = regexp.MustCompile(`couldn't find key ([\w.-]+) in (Secret|ConfigMap) (?:[^/\s]+/)?(\S+)`)

// containerConfig returns the entry for a container that cannot be created or started.
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
	e.do = v.doAboutProgram(message, "Check the command of the container, and whether the image has it.")
	e.fix = "correct the container"
	return e
}

// missingObject returns the entry for a pod that needs an object that does not exist, or a key that an object does
// not have. It returns nil if the message is about something else.
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

// Reasons of the events of a pod. Only the newest event with one of these reasons counts. If its reason is in the
// list troubles, the pod cannot start. If its reason is in the list steps, the pod is starting.
var (
	troubles = []string{
		"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady",
	}
	steps = []string{"Pulling", "Pulled", "Created", "Started", "SuccessfulAttachVolume"}
)

// startingMessage matches a message about a pod that is starting. The group of the regular expression is not empty if
// the message also reports that the volumes or the network of the pod are not ready.
var startingMessage = regexp.MustCompile(` is starting(?:, (but .+?)(?:: see the events of the pod)?)?$`)

// starting returns the entry for a job whose pods have nodes and are starting.
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
	if message := startingMessage.FindStringSubmatch(c.message); message != nil && message[1] != "" {
		e.cause = fmt.Sprintf("Pod {pod} has a node%s, %s.", v.sameFor(), quote(message[1]))
		e.do = "The kubelet tries it again."
		e.next = []step{describePod}
	} else if message != nil {
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
		case status.State.Running == nil || status.Started != nil && *status.Started && jobs.IsSidecar(s.pod, status.Name):
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
				{purpose: "Read its output", line: "kubectl logs {pod} -c " + shell.Quote(clean(status.Name))},
				describePod,
			}
			return e
		}
	}
	if last != nil && last.Reason == "Pulling" {
		e.cause = fmt.Sprintf("Pod {pod} has a node, and began to pull its image %s%s.",
			v.ago(jobs.LastSeen(last)), v.sameFor())
		e.do = "Large images take minutes. Wait."
	}
	return e
}
