package screen

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/progress"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

const (
	// twoColumns is the minimum width at which failures and events are beside the replicas instead of below them.
	twoColumns = 140
	// labelWidth is the width of the labels of facts.
	labelWidth = 13
)

// Job returns the page of a job for a view. The order of its parts follows the questions of somebody who watches the
// job: whether the job trains, why not, how far it is, and which replicas have a problem.
func Job(s Snapshot, v View, now time.Time) Page {
	replicas := s.replicas()
	p := Page{head: s.head(v.Width, now), foot: foot(s.Trouble, now), next: s.next()}
	alertRows := min(max(v.Height/6, 2), 8)
	alerts := s.alerts(v.Width, alertRows, now)
	left := v.Width
	if v.Width >= twoColumns {
		left = v.Width * 11 / 20
	}
	facts := s.facts(replicas, left, now)
	room := v.Height - len(p.head) - len(alerts) - len(facts) - 3
	if v.Width >= twoColumns {
		right := v.Width - left - 2
		p.body = beside(
			sections(facts, replicaTable(replicas, left, max(room, 5))), left,
			sections(s.lastFailure(right, max(room/2, 2), now), s.recentEvents(right, now)))
	} else {
		states := replicaTable(replicas, v.Width, max(room/2, 5))
		failure, events := s.lastFailure(v.Width, max(room/4, 1), now), s.recentEvents(v.Width, now)
		if s.isRunning() || s.isSucceeding() {
			p.body = sections(facts, states, failure, events)
		} else {
			p.body = sections(facts, failure, states, events)
		}
	}
	for { // lengthen the messages while all other lines fit
		alertRows++
		longer := s.alerts(v.Width, alertRows, now)
		if len(longer) == len(alerts) || len(longer)+len(p.body) > p.room(v) {
			break
		}
		alerts = longer
	}
	p.body = append(alerts, p.body...)
	if len(replicas) > foldFrom {
		p.rest = append([]string{"", strong.Render("ALL REPLICAS")}, rows(replicas, v.Width)...)
	}
	return p
}

// sections returns blocks of lines with an empty line between them. It omits empty blocks.
func sections(blocks ...[]string) []string {
	var lines []string
	for _, block := range blocks {
		if len(lines) > 0 && len(block) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, block...)
	}
	return lines
}

// beside returns the left lines, padded to a number of columns, with the right lines next to them.
func beside(left []string, columns int, right []string) []string {
	lines := make([]string, max(len(left), len(right)))
	for i := range lines {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		if lines[i] = l; r != "" {
			lines[i] = pad(fit(l, columns), columns) + "  " + r
		}
	}
	return lines
}

// head returns lines with the kind and name of the job, its phase and reason, and how long it has been in this state.
func (s Snapshot) head(columns int, now time.Time) []string {
	title := strong.Render(printable.Line(s.Job.GetName())) + "  " +
		quiet.Render(s.Job.Kind.Kind+" in namespace "+printable.Line(s.Job.GetNamespace()))
	return []string{spread(title, quiet.Render(s.since(now)), columns), s.state(), ""}
}

// state returns the phase and the reason in words.
func (s Snapshot) state() string {
	status := s.status()
	if s.Deleted {
		return bad.Bold(true).Render("✗ Deleted") + "  the job no longer exists"
	}
	look := lookOfJob(status.Phase)
	text := look.style.Bold(true).Render(look.mark + " " + cmp.Or(printable.Line(string(status.Phase)), "Pending"))
	if s.isStalled() {
		return text + waits.Bold(true).Render(" ▲ stalled") + "  the training makes no progress"
	}
	if s.Job.Spec().RunMode.Debugging() && s.isRunning() {
		return text + "  debug mode: every replica idles"
	}
	if s.waitsForCode() {
		return text + "  kubectl train run has not uploaded the code yet"
	}
	switch reason := printable.Line(status.Reason); reason {
	case "":
		return text + "  no controller has written the status yet"
	case batchv1beta1.ReasonReplicasRunning:
		return text + "  " + inWords(reason)
	default:
		return text + "  " + inWords(reason) + " " + quiet.Render("("+reason+")")
	}
}

// since returns a text with the time that the job has been in its state, and with its age.
func (s Snapshot) since(now time.Time) string {
	status, running := s.status(), s.condition(batchv1beta1.ConditionRunning)
	age := "age " + ago(s.Job.GetCreationTimestamp().Time, now)
	switch {
	case s.Deleted:
		return age
	case status.CompletionTime != nil && status.StartTime != nil:
		return fmt.Sprintf("took %s, ended %s ago", ago(status.StartTime.Time, status.CompletionTime.Time),
			ago(status.CompletionTime.Time, now))
	case status.CompletionTime != nil:
		return fmt.Sprintf("ended %s ago", ago(status.CompletionTime.Time, now))
	case s.isRunning():
		return fmt.Sprintf("runs for %s, %s", ago(running.LastTransitionTime.Time, now), age)
	case s.condition(batchv1beta1.ConditionPaused).Status == metav1.ConditionTrue:
		return fmt.Sprintf("paused for %s, %s",
			ago(s.condition(batchv1beta1.ConditionPaused).LastTransitionTime.Time, now), age)
	case status.Decided():
		return fmt.Sprintf("ends for %s, %s", ago(running.LastTransitionTime.Time, now), age)
	case running.Type != "":
		return fmt.Sprintf("waits for %s, %s", ago(running.LastTransitionTime.Time, now), age)
	default:
		return age
	}
}

// foot returns a line with the time and the keys to press. If the cluster cannot be read, it has the trouble instead.
func foot(trouble string, now time.Time) string {
	if trouble != "" {
		return bad.Render("▲ not up to date: ") + printable.Line(trouble)
	}
	return quiet.Render(now.Format("15:04:05") + "  ↑↓ scroll  q quit")
}

// next returns the command to type next, or an empty text if the job needs no attention.
func (s Snapshot) next() string {
	isPaused := s.status().Phase == batchv1beta1.JobPhasePaused && !s.waitsForCode()
	if s.Deleted || s.isSucceeding() || isPaused || s.isRunning() && !s.isStalled() {
		return ""
	}
	return fmt.Sprintf("kubectl train why -n %s %s", printable.Line(s.Job.GetNamespace()), printable.Line(s.Job.Ref()))
}

// alerts returns messages about what the job waits for, or why it failed, and an empty line after them. It returns no
// lines if there is no message. Each message has at most the given number of lines.
func (s Snapshot) alerts(columns, most int, now time.Time) []string {
	status := s.status()
	var lines []string
	alert := func(mark lipgloss.Style, text string) { // wrap returns no lines for an empty text
		for _, line := range wrap(printable.Line(text), columns-2, most) {
			lines = append(lines, mark.Render("│ ")+line)
		}
	}
	stalled := s.condition(batchv1beta1.ConditionStalled)
	switch {
	case s.isStalled():
		alert(waits, fmt.Sprintf("Stalled for %s: %s", ago(stalled.LastTransitionTime.Time, now), stalled.Message))
	case stalled.Status == metav1.ConditionUnknown:
		alert(quiet, "The progress is not known: "+stalled.Message)
	}
	switch {
	case status.Phase == batchv1beta1.JobPhaseFailed:
		if !s.explains(status.Reason) {
			alert(bad, s.message())
		}
	case status.Phase == batchv1beta1.JobPhasePaused, status.Reason == batchv1beta1.ReasonReplicasRunning:
	case s.isSucceeding():
		// While the job ends, the condition Running has another message than the job only if pods are overdue.
		ends := s.condition(batchv1beta1.ConditionRunning)
		if ends.Reason == batchv1beta1.ReasonFinishing && ends.Message != s.message() {
			alert(waits, ends.Message)
		}
	default:
		alert(waits, s.message())
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return lines
}

// explains reports whether the last failure explains the reason of the job. If so, the message of a condition would
// only repeat the failure.
func (s Snapshot) explains(reason string) bool {
	return len(s.status().Failures) > 0 &&
		(reason == batchv1beta1.ReasonBackoffLimitExceeded || reason == batchv1beta1.ReasonPermanentFailure)
}

// facts returns the lines with the facts about the job. The first line of each fact begins with a label.
func (s Snapshot) facts(replicas []replica, columns int, now time.Time) []string {
	var lines []string
	fact := func(label string, texts ...string) {
		for i, text := range texts {
			if i > 0 {
				label = ""
			}
			lines = append(lines, quiet.Render(pad(label, labelWidth))+text)
		}
	}
	if p := s.status().Progress; p != nil {
		fact("Progress", s.progress(*p, columns-labelWidth, now)...)
	}
	fact("Replicas", s.replicaSummary(replicas))
	if len(replicas) > foldFrom {
		fact("", grid(replicas, columns-labelWidth)...)
	}
	if text := s.deviceSummary(replicas, now); text != "" {
		fact("Devices", text)
	}
	fact("Restarts", s.restarts(now)...)
	if s.Queue != nil {
		fact("Queue", s.Queue.summary())
	}
	if avoided := s.avoided(now); len(avoided) > 0 {
		fact("Avoids", avoided...)
	}
	if s.TensorBoard != "" {
		fact("TensorBoard", printable.Line(s.TensorBoard))
	}
	if len(s.Missing) > 0 {
		fact("Not shown", printable.Line(strings.Join(s.Missing, ", ")))
	}
	return lines
}

// progress returns a bar with the percentage and the remaining time, and lines with the step and the metrics.
func (s Snapshot) progress(p batchv1beta1.ProgressStatus, columns int, now time.Time) []string {
	var lines []string
	left := ""
	if eta := p.EstimatedCompletionTime; eta != nil && eta.After(now) && !s.Deleted {
		left = "  " + ago(now, eta.Time) + " left"
	}
	if p.Percent != nil {
		lines = append(lines, bar(*p.Percent, min(max(columns-6-width(left), 8), 50))+
			strong.Render(fmt.Sprintf(" %3d%%", *p.Percent))+left)
	}
	var texts []string
	if p.Step != nil {
		text := quiet.Render("step ") + strconv.FormatInt(*p.Step, 10)
		if p.TotalSteps != nil {
			text += fmt.Sprintf("/%d", *p.TotalSteps)
		}
		texts = append(texts, text)
	}
	for _, m := range p.Metrics {
		texts = append(texts, quiet.Render(printable.Line(m.Name)+" ")+printable.Line(m.Value))
	}
	if last := p.LastReportTime; last != nil && !s.status().Finished() {
		style := quiet
		if s.isStalled() {
			style = waits
		}
		texts = append(texts, style.Render("reported "+ago(last.Time, now)+" ago"))
	}
	return append(lines, flow(texts, "  ", columns, 2)...)
}

// bar returns a progress bar.
func bar(percent int32, columns int) string {
	b := progress.New(progress.WithoutPercentage(), progress.WithWidth(columns), progress.WithFillCharacters('━', '─'),
		progress.WithColors(lipgloss.Green))
	b.EmptyColor = lipgloss.BrightBlack
	return b.ViewAs(float64(min(max(percent, 0), 100)) / 100)
}

// replicaSummary returns how many replicas are in each phase, how many nodes they use, and the limits of elastic jobs.
func (s Snapshot) replicaSummary(replicas []replica) string {
	if len(replicas) == 0 {
		return fmt.Sprintf("none of %d has been created", s.expected())
	}
	text := phaseSummary(replicas, s.status().Finished())
	if nodes := nodesOf(replicas); nodes > 0 {
		text += quiet.Render(fmt.Sprintf("  on %s", report.Count(nodes, "node")))
	}
	if e := s.Job.Spec().Elastic; e != nil {
		text += quiet.Render(fmt.Sprintf("  elastic: %d to %d", e.Least(), e.Most()))
	}
	return text
}

// expected returns how many replicas the spec has.
func (s Snapshot) expected() int {
	n := 0
	for _, role := range s.Job.Spec().Roles {
		n += int(role.Replicas)
	}
	return n
}

// restarts returns how often replicas were restarted, and how often the job was disrupted, paused and evicted.
func (s Snapshot) restarts(now time.Time) []string {
	status := s.status()
	limit := ptr.Deref(s.Job.Spec().RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
	text := fmt.Sprintf("%d of %d", status.BackoffCount, limit)
	if status.BackoffCount > 0 {
		text = waits.Render(text)
	}
	text += quiet.Render(fmt.Sprintf("  attempt %d", status.Attempt))
	if status.Disruptions > 0 {
		text += quiet.Render("  disrupted " + report.Count(int(status.Disruptions), "time"))
	}
	if status.Pauses > 0 {
		text += quiet.Render("  paused " + report.Count(int(status.Pauses), "time"))
	}
	if status.Evictions > 0 {
		text += quiet.Render("  evicted " + report.Count(int(status.Evictions), "time"))
	}
	inPlace := status.RestartsInPlace
	if inPlace == nil {
		return []string{text}
	}
	lines := []string{text + quiet.Render("  in place "+report.Count(int(inPlace.Count), "time"))}
	if len(inPlace.Last) > 0 {
		last := inPlace.Last[0]
		lines = append(lines, quiet.Render(printable.Line(
			fmt.Sprintf("last in place %s ago: %s", ago(last.Time.Time, now), last))))
	}
	return lines
}

// summary returns the name of the queue, the place of the job in the queue, and the usage of the quota.
func (q Queue) summary() string {
	text := printable.Line(q.Name)
	switch {
	case q.Admitted:
		text += ", admitted"
	case q.Place > 0 && q.Waiting > 0:
		text += fmt.Sprintf(", place %d of %d", q.Place, q.Waiting)
	case q.Place > 0:
		text += fmt.Sprintf(", place %d", q.Place)
	case q.Waiting > 0:
		text += fmt.Sprintf(", %s", report.Count(q.Waiting, "job")) + " waiting"
	}
	if q.Within != "" && !q.Admitted && cmp.Or(q.Place, q.Waiting) > 0 {
		text += " " + printable.Line(q.Within)
	}
	if q.Usage != "" {
		text += quiet.Render("  " + printable.Line(q.Usage))
	}
	return text
}

// avoided returns a line for each node that the job avoids, the newest first. If there are too many nodes, the last
// line has the number of the other nodes.
func (s Snapshot) avoided(now time.Time) []string {
	const most = 4
	nodes := s.status().AvoidedNodes
	lines := make([]string, 0, min(len(nodes), most))
	for i := range nodes[:min(len(nodes), most)] {
		n := nodes[len(nodes)-1-i] // the newest first
		line := fmt.Sprintf("%s %s", printable.Line(n.Name), quiet.Render(inWordsOfNode(n.Reason)))
		if n.Until.After(now) {
			line += quiet.Render(", for another " + ago(now, n.Until.Time))
		}
		lines = append(lines, line)
	}
	if more := len(nodes) - most; more > 0 {
		lines = append(lines, quiet.Render(fmt.Sprintf("and %s more", report.Count(more, "node"))))
	}
	return lines
}

// lastFailure returns lines with the last failure and the last lines of its output.
func (s Snapshot) lastFailure(columns, most int, now time.Time) []string {
	if len(s.status().Failures) == 0 {
		return nil
	}
	f := s.status().Failures[0]
	lines := []string{
		strong.Render("LAST FAILURE") + quiet.Render("  "+ago(f.Time.Time, now)+" ago"),
		fit(bad.Render("✗ ")+s.howFailed(f), columns),
	}
	var output []string
	for _, line := range outputLines(f.Message) {
		output = append(output, strings.Split(ansi.Wrap(line, max(columns-2, 1), ""), "\n")...)
	}
	for _, line := range output[max(len(output)-most, 0):] {
		lines = append(lines, quiet.Render("│ ")+line)
	}
	return lines
}

// recentEvents returns the events, newest first.
func (s Snapshot) recentEvents(columns int, now time.Time) []string {
	if len(s.Events) == 0 {
		return nil
	}
	lines := []string{strong.Render("EVENTS")}
	for _, e := range s.Events {
		style := plain
		if e.Type != "Normal" {
			style = waits
		}
		lines = append(lines, fit(quiet.Render(pad(ago(e.Time, now), 6))+
			style.Render(pad(printable.Line(e.Reason), 16))+" "+printable.Line(e.Message), columns))
	}
	return lines
}
