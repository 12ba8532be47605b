package why

import (
	"regexp"
	"slices"
	"strings"

	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/common/shell"
)

// entry explains a reason that a condition, an event or another part of a status has. Its texts and commands can have
// placeholders in braces. In texts, {message} stands for the message of the condition, and {when} for how long ago
// the condition began. view.allNames has the other placeholders.
type entry struct {
	// words describe the reason in a few words, for a screen. They are empty if no job has the reason in its status.
	words string
	// cause has sentences that name the cause. The field do has sentences about what the user can do.
	cause, do string
	// next are commands to type next. A command with a placeholder that has no value is left out.
	next []step
	// fix is the change that the user must make in the template, such as "correct the image". The command for this
	// change follows the other commands.
	fix string
	// see is a page or section that kubectl train docs prints.
	see string
	// needsHelp reports whether somebody must act before a TensorBoard with the reason works. Only the tables tensorBoard
	// and tensorBoardUse set it.
	needsHelp bool
	// choose returns the entry that replaces this one, if the text depends on the facts. If choose is nil, this entry is
	// used.
	choose func(v view, c condition) entry
}

// with returns the entry with the words of a reason that shares everything else with other reasons.
func (e entry) with(words string) entry {
	e.words = words
	return e
}

// step is a command of an entry.
type step struct {
	purpose, line string
	// ofCluster reports whether the command is about objects without a namespace, or about all namespaces. Such a
	// command gets Facts.ClusterFlags, and all others get Facts.Flags.
	ofCluster bool
}

// finding returns the finding about a condition. The entry comes from the first table that has the reason of the
// condition. If no table has the reason, the text of the finding repeats what the condition reports.
func (v view) finding(c condition, weight weight, tables ...map[string]entry) Finding {
	e := entry{
		cause: "The reason of the condition " + c.name + " is " + c.reason + ": {message}.",
		next:  []step{describeJob}, see: seeProblems,
	}
	for _, table := range tables {
		if found, ok := table[c.reason]; ok {
			e = found
			break
		}
	}
	if e.choose != nil {
		e = e.choose(v, c)
	}
	return Finding{
		Object: clean(c.object), Condition: c.name, Reason: clean(c.reason),
		Text: clean(v.text(sentences(e.cause, e.do), c)), Next: v.commands(e), See: e.see, weight: weight,
	}
}

// text replaces the placeholders of a text.
func (v view) text(text string, c condition) string {
	message := quote(c.message)
	if message == "" {
		text = strings.NewReplacer(": {message}", "", " ({message})", "").Replace(text)
	}
	pairs := []string{"{message}", message, "{when}", v.ago(c.since)}
	for name, value := range v.names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// maxMessage is the maximum number of characters of a message that a text quotes.
const maxMessage = 400

// quote returns a message without the full stop at its end, so that a sentence can end with the message. [...]
// replaces the end of a long message.
func quote(message string) string {
	message = strings.TrimRight(clean(message), ".: ")
	if short := printable.Shortened(message, maxMessage); short != message {
		return strings.TrimRight(short, ".: ") + " [...]"
	}
	return message
}

// commands returns the commands of an entry.
func (v view) commands(e entry) []Command {
	var pairs []string
	for name, value := range v.names {
		pairs = append(pairs, "{"+name+"}", shell.Quote(value))
	}
	replacer := strings.NewReplacer(pairs...)
	hasNoValue := func(found string) bool { return v.names[strings.Trim(found, "{}")] == "" }
	var commands []Command
	for _, s := range slices.Concat(e.next, v.fixing(e.fix)) {
		if slices.ContainsFunc(placeholder.FindAllString(s.line, -1), hasNoValue) {
			continue
		}
		flags := v.Flags
		if s.ofCluster {
			flags = v.ClusterFlags
		}
		parts := strings.Split(s.line, " && ") // split before the replacement, since a value can contain &&
		for i, part := range parts {
			parts[i] = strings.TrimSpace(replacer.Replace(part) + " " + flags)
		}
		commands = append(commands, Command{
			Purpose: clean(v.text(s.purpose, condition{})), Line: clean(strings.Join(parts, " && ")),
		})
	}
	return commands
}

// placeholder matches a placeholder.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// fixing returns the command by which the user changes the template of the job.
func (v view) fixing(fix string) []step {
	switch {
	case fix == "":
		return nil
	case !v.canChange():
		return []step{{purpose: "Delete the job. Then " + fix + ", and create it again", line: "kubectl train delete {job}"}}
	}
	return []step{{
		purpose: "Pause the job, " + fix + ", and resume it",
		line:    "kubectl train pause {job} && kubectl edit {job} && kubectl train resume {job}",
	}}
}

// Commands that several entries have.
var (
	describeJob = step{purpose: "Read all conditions and events of the job", line: "kubectl describe {job}"}
	describePod = step{purpose: "Read the whole message, and the events of the pod", line: "kubectl describe pod {pod}"}
	listPods    = step{
		purpose: "List the pods of the job, with their nodes",
		line:    "kubectl get pods -o wide -l batch.tensorstack.dev/job-name={name}",
	}
	describeNode = step{
		purpose: "Read what is wrong with the node", line: "kubectl describe node {node}",
		ofCluster: true,
	}
	describeNodes = step{
		purpose: "See what the nodes have, and how much of it is taken", line: "kubectl describe nodes", ofCluster: true,
	}
	listJobs = step{
		purpose: "See which jobs hold resources", line: "kubectl train list -A -o wide", ofCluster: true,
	}
	readLogs   = step{purpose: "Read the output of the job", line: "kubectl train logs {job}"}
	readFailed = step{
		purpose: "Read the whole output of the replica that failed", line: "kubectl train logs {job} --failed",
	}
	watchJob       = step{purpose: "Watch the job until it runs", line: "kubectl train watch {job}"}
	findController = step{
		purpose: "See whether the controller runs",
		line:    "kubectl get pods -A -l app.kubernetes.io/name={controller}", ofCluster: true,
	}
	readController = step{
		purpose: "For an administrator: read the errors of the controller",
		line:    "kubectl logs -n t9k-{framework} deployment/{controller} --tail=50", ofCluster: true,
	}
	describeGroup = step{
		purpose: "Read what the group of the job waits for",
		line:    "kubectl describe podgroups.scheduler.tensorstack.dev {name}",
	}
	listGroups = step{
		purpose: "See which groups are in the queue, and which of them run",
		line:    "kubectl get podgroups.scheduler.tensorstack.dev -A", ofCluster: true,
	}
	describeQueue = step{
		purpose: "Read the quota of the queue, and how much of it is in use",
		line:    "kubectl describe queues.scheduler.tensorstack.dev {queue}", ofCluster: true,
	}
	listQueues = step{
		purpose: "List the queues of the cluster", line: "kubectl get queues.scheduler.tensorstack.dev", ofCluster: true,
	}
	describeBoard = step{purpose: "Read what the TensorBoard waits for", line: "kubectl describe tb {tensorboard}"}
	openBoard     = step{purpose: "Open the TensorBoard", line: "kubectl train board {job}"}
	startBoard    = step{
		purpose: "Start the TensorBoard again",
		line:    `kubectl patch tb {tensorboard} --type=merge -p '{"spec": {"suspend": false}}'`,
	}
	jobEventsOf = step{purpose: "Read the events of the job", line: "kubectl events --for {job}"}
	podEventsOf = step{purpose: "Read the events of the pod", line: "kubectl events --for pod/{replica}"}
)
