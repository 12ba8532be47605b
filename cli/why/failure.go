package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// Limits of the output that an explanation shows.
const (
	maxLines = 10
	maxLine  = 160
)

// output returns the last lines of output of the replica that failed, if the explanation is about this failure and the
// program itself failed.
func (v view) output() []string {
	failure := v.lastFailure()
	isShown := v.endedByFailure() || !v.status.Decided() && v.is(batchv1beta1.ConditionReplicaFailure)
	if failure == nil || !isShown || failure.ExitCode == nil || neverRan(failure.Reason) ||
		v.Job.GetDeletionTimestamp() != nil {
		return nil
	}
	lines := slices.DeleteFunc(strings.Split(failure.Message, "\n"), func(line string) bool {
		return strings.TrimSpace(cleanLine(line)) == ""
	})
	return lines[max(0, len(lines)-maxLines):]
}

// neverRan reports whether a reason of the kubelet means that the program could not be started.
func neverRan(reason string) bool { return reason == "StartError" || reason == "ContainerCannotRun" }

// who returns the replica that failed last, with its rank and its node, as the subject of a sentence.
func (v view) who() string {
	failure := v.lastFailure()
	return "Replica " + described(failure.Replica, failure.Rank, failure.Node)
}

// described returns the name of a replica with its rank and its node, as far as they are known.
func described(replica string, rank *int32, node string) string {
	var facts []string
	if rank != nil {
		facts = append(facts, fmt.Sprintf("rank %d", *rank))
	}
	if node != "" {
		facts = append(facts, "on node "+node)
	}
	if len(facts) == 0 {
		return replica
	}
	return replica + " (" + strings.Join(facts, ", ") + ")"
}

// backoffLimitExceeded returns the entry of a job that has no restart left.
func backoffLimitExceeded(v view, _ condition) entry {
	e := entry{
		cause: "No restart is left, because runPolicy.backoffLimit is {limit}.",
		do:    "Fix the cause, delete the job, and create it again.",
		next:  []step{readFailed}, see: seeFailed,
	}
	if len(v.status.Failures) > 1 {
		e.next = append(e.next, step{purpose: "Read the other failures of the job", line: "kubectl describe {job}"})
	}
	e.next = append(e.next, deleteToRepeat)
	return e
}

// failedWithError returns the entry of a program that ended with an error.
func failedWithError(v view, _ condition) entry {
	e := entry{cause: "{who} failed: {message}.", next: []step{readFailed}, see: seeFailed}
	failure := v.lastFailure()
	if failure == nil || failure.ExitCode == nil {
		e.next = append(e.next, podEventsOf)
		return e
	}
	code := *failure.ExitCode
	switch {
	case failure.RankSignal != "":
		e.cause = fmt.Sprintf("{who} ended because its process was ended by %s%s.", clean(failure.RankSignal),
			meaningOfSignal(failure.RankSignal))
		e.do = v.doAboutSharedMemory(*failure)
		return e
	case failure.RankExitCode != nil:
		code = *failure.RankExitCode
	}
	e.cause = fmt.Sprintf("{who} ended with exit code %d%s.", code, meaningOfCode(code))
	if init := initFailed.FindStringSubmatch(firstLine(failure.Message)); init != nil {
		e.cause = fmt.Sprintf("{who} failed before its program began: its init container %s ended with exit code %d%s.",
			clean(init[1]), code, meaningOfCode(code))
	}
	e.do = v.doAboutProgram(failure.Message, sentences(v.doAboutMesh(*failure), v.doAboutSharedMemory(*failure)))
	return e
}

// initFailed matches the message of the controller about an init container that failed.
var initFailed = regexp.MustCompile(`^the init container (\S+) failed$`)

// sharedMemory matches the messages of PyTorch and NCCL about too little shared memory.
var sharedMemory = regexp.MustCompile(`killed by signal: Bus error|shared memory ?\(shm\)|out of shared memory\. Please|` +
	`unable to write to file </torch_|Error while creating shared memory segment /dev/shm/`)

// doAboutSharedMemory returns what to do about a replica that had too little shared memory. It is empty for all other
// failures.
func (v view) doAboutSharedMemory(failure batchv1beta1.ReplicaFailure) string {
	isBusError := failure.ExitCode != nil && *failure.ExitCode == 135 || failure.RankExitCode != nil &&
		*failure.RankExitCode == 135 || failure.RankSignal == "SIGBUS"
	if !isBusError && !sharedMemory.MatchString(failure.Message) || initFailed.MatchString(firstLine(failure.Message)) {
		return ""
	}
	const orFewer = "The shared memory counts towards the memory limit of the container. Or use fewer workers of " +
		"the data loader."
	if v.mounts(failure.Replica, "/dev/shm") {
		return "Raise the sizeLimit of the volume at /dev/shm, if it has one, or the memory limit. " + orFewer
	}
	return "Without a volume at /dev/shm, a container has only 64 MiB of shared memory. In the template, mount an " +
		"emptyDir with medium Memory there. " + orFewer
}

// mounts reports whether the main container of a replica has a volume at a path.
func (v view) mounts(replica, path string) bool {
	main := v.mainContainer(replica)
	return main != nil && slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == path
	})
}

// mainContainer returns the main container of a replica: of its pod, or of its template if the pod is gone. Nil means
// that neither is known.
func (v view) mainContainer(replica string) *corev1.Container {
	var containers []corev1.Container
	if pod := v.pod(replica); pod != nil { // admission can change it, for example by a LimitRange
		containers = pod.Spec.Containers
	} else if role := v.roleOf(replica); role != nil && role.Template != nil {
		containers = role.Template.Spec.Containers
	}
	return framework.MainContainer(v.Job.Kind.MainContainers, containers)
}

// proxies are the containers of service meshes, with what keeps a pod out of the mesh.
var proxies = map[string]string{
	"istio-proxy":   `label sidecar.istio.io/inject: "false"`,
	"linkerd-proxy": "annotation linkerd.io/inject: disabled",
}

// doAboutMesh returns what to do about a replica whose connections were reset although its pod is in a service mesh. It
// is empty for all other failures.
func (v view) doAboutMesh(failure batchv1beta1.ReplicaFailure) string {
	pod := v.pod(failure.Replica)
	if pod == nil || !strings.Contains(strings.ToLower(failure.Message), "connection reset by peer") {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if exclusion, isProxy := proxies[c.Name]; isProxy {
			return fmt.Sprintf("The pod has the proxy %s of a service mesh, which can reset connections between replicas. "+
				"If no other replica failed before, keep the pods out of the mesh: give the template the %s.", c.Name, exclusion)
		}
	}
	return ""
}

// notFound matches the message about a program that is not in the PATH of a container.
var notFound = regexp.MustCompile(`exec: "([^"]+)": executable file not found in \$PATH`)

// doAboutProgram adds to the advice about a program that cannot run what to do if it is not in the PATH of the
// container. Torchrun can be a program that only the controller names.
func (v view) doAboutProgram(message, do string) string {
	const entrypoint = "The entrypoint of the image does not run, so a PATH that only it sets has no effect."
	found := notFound.FindStringSubmatch(message)
	switch {
	case found == nil:
		return do
	case found[1] == "torchrun" && v.Job.RunsTorchrun():
		return "The controller runs torchrun, so the command in the template is not the cause. The image must have " +
			"torchrun in the PATH of its environment (ENV). " + entrypoint +
			" Or remove torchrunConfig, and set the command in the template."
	default:
		return sentences(do, entrypoint)
	}
}

// signals have the meaning of signals that often end a training, by their number.
var signals = []struct {
	number        int32
	name, meaning string
}{
	{2, "SIGINT", "somebody interrupted it"},
	{4, "SIGILL", "the program uses instructions that the CPU of the node does not have"},
	{6, "SIGABRT", "the program aborted itself, often because of a failed check in C++ or CUDA code"},
	{7, "SIGBUS", "often the shared memory /dev/shm was too small for the workers of a data loader"},
	{8, "SIGFPE", "the program divided by zero in native code"},
	{9, "SIGKILL", "it was killed from outside, for example at the end of a grace period or because the node had no " +
		"memory left"},
	{11, "SIGSEGV", "a segmentation fault, which is an error in native code"},
	{15, "SIGTERM", "something outside asked it to end"},
}

// meaningOfSignal returns what a signal means, as the rest of a sentence.
func meaningOfSignal(name string) string {
	for _, s := range signals {
		if s.name == name {
			return ": " + s.meaning
		}
	}
	return ""
}

// meaningOfCode returns what an exit code means, as the rest of a sentence.
func meaningOfCode(code int32) string {
	switch code {
	case 1:
		return ", an error of the program"
	case 2:
		return ", which programs use for a wrong command line, such as an unknown option or a script that does not exist"
	case 126:
		return ": the command of the container is not a program that can run"
	case 127:
		return ": the command of the container is not in the image"
	}
	for _, s := range signals {
		if code == 128+s.number {
			return fmt.Sprintf(" (%s): %s", s.name, s.meaning)
		}
	}
	return ""
}

// outOfMemory returns the entry of a container that used more memory than its limit.
func outOfMemory(v view, _ condition) entry {
	e := entry{
		cause: "{who} was killed because it used more memory than its limit" + v.memoryLimit() + ".",
		do:    "Use less memory, for example with a smaller batch or fewer workers of the data loader, or raise the limit.",
		next:  []step{readFailed}, fix: "raise resources.limits.memory", see: seeFailed,
	}
	return e
}

// memoryLimit returns the memory limit of the replica that failed, as part of a sentence.
func (v view) memoryLimit() string {
	failure := v.lastFailure()
	if failure == nil {
		return ""
	}
	main := v.mainContainer(failure.Replica)
	if main == nil {
		return ""
	}
	limit, ok := main.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return ". The template sets no limit, so it is that of the namespace or of the node"
	}
	return " of " + limit.String()
}

// evicted returns the entry of a replica that was evicted. Only an eviction because of a limit of the pod counts.
func evicted(v view, _ condition) entry {
	e := entry{
		cause: "{who} was evicted: {message}.",
		do:    "Its node is being drained, has a taint with the effect NoExecute, or is short of a resource.",
		next:  []step{podEventsOf, describeNode}, see: seeFailed,
	}
	if failure := v.lastFailure(); failure != nil && failure.Counted {
		e.do = "Write less to the local disk, mount a claim for checkpoints and data, or raise the limit of ephemeral " +
			"storage or the sizeLimit of the volume."
		e.next = []step{podEventsOf}
	}
	return e
}

// deviceUnhealthy returns the entry of a replica that lost a device.
func deviceUnhealthy(v view, _ condition) entry {
	devices := "a device, such as a GPU,"
	if failure := v.lastFailure(); failure != nil && len(failure.Devices) > 0 {
		var names []string
		for _, d := range failure.Devices[:min(len(failure.Devices), 3)] {
			names = append(names, clean(d.Resource)+" "+clean(d.ID))
		}
		devices = "device " + listed(names)
		if more := len(failure.Devices) - len(names); more > 0 {
			devices += fmt.Sprintf(" and %d more", more)
		}
	}
	return entry{
		cause: fmt.Sprintf("{who} failed because the kubelet reports %s as unhealthy.", devices),
		do: sentences("This is no failure of the program, and the restart does not count.", v.willAvoid(),
			"Report the device to an administrator."),
		next: []step{describeNode, listPods}, see: seeBadNodes,
	}
}

// deviceTainted returns the entry of a replica that lost a device because of a taint.
func deviceTainted(v view, _ condition) entry {
	return entry{
		cause: "{who} lost a device, such as a GPU, because the device has a taint with the effect NoExecute.",
		do: sentences("This is no failure of the program.", v.willAvoid(),
			"An administrator can find the device in the ResourceClaim of the pod."),
		next: []step{{purpose: "List the claims for devices", line: "kubectl get resourceclaims"}, describeNode},
		see:  seeBadNodes,
	}
}

// nodeLost returns the entry of a replica that was lost with its node.
func nodeLost(v view, _ condition) entry {
	return entry{
		cause: "{who} was lost with its node, which does not answer, is gone, or was restarted.",
		do:    sentences("This is no failure of the program.", v.willAvoid()),
		next:  []step{describeNode, podEventsOf}, see: seeBadNodes,
	}
}

// willAvoid returns the sentence about what follows from another failure of the node. It is empty if the job already
// avoids nodes.
func (v view) willAvoid() string {
	if len(v.status.AvoidedNodes) > 0 {
		return ""
	}
	return "After the second time, new pods of the job avoid the node."
}

// deadlineExceeded returns the entry of a job that took too long.
func deadlineExceeded(_ view, c condition) entry {
	return entry{
		cause: sentence(c.message) + ". Waiting for a Queue, a node or an image counts, and waiting for Kueue does not.",
		do:    "Delete the job, and create it again with a longer runPolicy.activeDeadlineSeconds.",
		next:  []step{readLogs, deleteToRepeat}, see: seeFailed,
	}
}

// permanentFailure returns the entry of a failure that the restart policy does not restart.
func permanentFailure(v view, _ condition) entry {
	because := "Its restart policy {policy} does not restart it after such a failure."
	switch v.names["policy"] {
	case string(batchv1beta1.RestartPolicyNever):
		because = "Its restart policy Never restarts no replica that failed."
	case string(batchv1beta1.RestartPolicyExitCode):
		because = "Its restart policy ExitCode restarts only after the exit codes 130, 137, 138 and 143."
	}
	return entry{
		cause: because, do: "Fix the cause, delete the job, and create it again.",
		next: []step{readFailed, deleteToRepeat}, see: seeFailed,
	}
}

// otherFailure returns the entry of a failure with a reason that only the kubelet has.
func (v view) otherFailure() entry {
	e := entry{
		cause: fmt.Sprintf("{who} failed (%s): {message}.", clean(v.lastFailure().Reason)),
		next:  []step{readFailed, podEventsOf}, see: seeFailed,
	}
	if neverRan(v.lastFailure().Reason) {
		e.cause = "{who} could not start its program: " + startWords(firstLine(v.lastFailure().Message)) + "."
		e.next = []step{podEventsOf}
		e.do = v.doAboutProgram(v.lastFailure().Message, "Check the command in the template, and whether the image has it.")
		e.fix = "correct the command"
	}
	return e
}

// restarting returns the entry of a job that replaces replicas.
func restarting(v view, c condition) entry {
	if late := overdue(withoutCount(c.message)); late != "" {
		return entry{
			cause: fmt.Sprintf("Its restart waits for %s, which should be gone.", late),
			do:    v.doAboutOverdue(late), next: []step{listPods}, see: seeEnding,
		}
	}
	return entry{
		cause: "Replica " + quote(withoutCount(c.message)) + ".",
		do:    "The job continues automatically. The delay grows with each restart.",
		next:  []step{readFailed, watchJob}, see: seePending,
	}
}

// finishing returns the entry of a job that has ended except for some pods.
func finishing(v view, c condition) entry {
	e := entry{
		cause: "Some of its pods still run, and are ending or being deleted.",
		do:    "If a pod stays, its node does not answer, or a webhook rejects its deletion.",
		next:  []step{listPods}, see: seeEnding,
	}
	if late := overdue(c.message); late != "" {
		e.cause = fmt.Sprintf("Its end waits for %s, which should have ended before.", late)
		e.do = v.doAboutOverdue(late)
	}
	return e
}

// overdue returns the pods that a message names as overdue. It is empty for other messages.
func overdue(message string) string {
	rest, isOverdue := strings.CutPrefix(message, "waiting for overdue ")
	late, _, ok := strings.Cut(rest, " to end")
	if !isOverdue || !ok {
		return ""
	}
	return clean(late)
}

// doAboutOverdue returns what to do about the pods that a message names as overdue. If the containers of the first pod
// have ended, its finalizers keep it.
func (v view) doAboutOverdue(late string) string {
	for _, pod := range v.Pods {
		isFirst := strings.HasPrefix(late+" ", "pod "+pod.Name+" ")
		if keepers := finalizersOf(&pod); isFirst && keepers != "" && !policy.MayRun(&pod) {
			return fmt.Sprintf("The pod still exists because of %s. The program that sets a finalizer must remove it. Ask an "+
				"administrator whether this program runs.", clean(keepers))
		}
	}
	return "The node does not answer, or a webhook rejects the deletion of the pod. Ask an administrator to check the " +
		"node."
}

// replicasRunning returns the entry of a job that runs.
func replicasRunning(v view, _ condition) entry {
	running, all := v.counts()
	e := entry{cause: fmt.Sprintf("Its replicas run or have ended (%d of %d)", running, all), see: seeRunning}
	switch a := v.status.Aggregate; {
	case a == nil || a.Running != all:
	case all == 1:
		e.cause = "Its only replica runs"
	default:
		e.cause = fmt.Sprintf("All %d replicas run", all)
	}
	if p := v.status.Progress; p != nil && p.Summary != "" {
		e.cause += ", and the training is at " + quote(p.Summary)
		if p.EstimatedCompletionTime != nil && p.EstimatedCompletionTime.After(v.Now) {
			e.cause += ", which leaves about " + v.in(p.EstimatedCompletionTime.Time)
		}
	}
	e.cause += "."
	if silent := v.notReady(); len(silent) > 0 {
		e.cause += fmt.Sprintf(" Not ready, perhaps because the node does not answer: %s.", listed(silent))
	}
	e.next = []step{
		{purpose: "Follow the output of the job", line: "kubectl train logs {job} -f"},
		{purpose: "Watch the job", line: "kubectl train watch {job}"},
	}
	return e
}

// firstLine returns the first line of a text that is not empty.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// sentence returns a message as the beginning of a sentence: cleaned, with a capital letter and without a full stop.
func sentence(message string) string {
	message = quote(message)
	if message == "" {
		return "No reason is given"
	}
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + message[size:]
}

// waitingCount matches the number of replicas at the beginning of the condition Running.
var waitingCount = regexp.MustCompile(`^(the replica is|[0-9]+ of [0-9]+ replicas (is|are)) not running yet: `)

// withoutCount returns the message of the condition Running without the number of replicas at its beginning.
func withoutCount(message string) string { return waitingCount.ReplaceAllString(message, "") }
