package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// Changes returns a line for each difference between two snapshots of a job. A line has the time in UTC, the given
// name, a topic, and the new state. The topics are failure, restarts, in-place, replicas, progress, stalled, avoids,
// queue, tensorboard, event, trouble, phase and deleted, in this order, so that causes are above their effects. If the
// earlier snapshot is nil, the lines describe the whole later snapshot except its events.
func Changes(before *Snapshot, after Snapshot, name string, now time.Time) []string {
	c := changes{prefix: prefixOf(name, now), isFirst: before == nil}
	if before == nil {
		before = &Snapshot{Job: after.Job}
		before.Job.Job = after.Job.Kind.New()
	}
	was, is := before.status(), after.status()
	for _, f := range after.failures(was) {
		text := after.howFailed(f)
		if output := outputLines(f.Message); len(output) > 0 {
			text += " | " + output[len(output)-1]
		}
		c.add("failure", text)
	}
	if was.BackoffCount != is.BackoffCount || was.Disruptions != is.Disruptions || was.Attempt != is.Attempt {
		limit := ptr.Deref(after.Job.Spec().RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
		text := fmt.Sprintf("%d of %d, attempt %d", is.BackoffCount, limit, is.Attempt)
		if is.Disruptions > 0 {
			text += fmt.Sprintf(", %s", report.Count(int(is.Disruptions), "disruption"))
		}
		c.add("restarts", text)
	}
	c.addIfNew("in-place", inPlaceLine(was.RestartsInPlace), inPlaceLine(is.RestartsInPlace))
	c.addIfNew("replicas", phaseSummary(before.replicas(), false), phaseSummary(after.replicas(), false))
	if text := progressLine(is.Progress); text != progressLine(was.Progress) && text != "" {
		if eta := is.Progress.EstimatedCompletionTime; eta != nil {
			text += " eta=" + eta.UTC().Format(time.RFC3339)
		}
		c.add("progress", text)
	}
	c.stalls(*before, after)
	c.nodes(was.AvoidedNodes, is.AvoidedNodes)
	if after.Queue != nil && (before.Queue == nil || before.Queue.line() != after.Queue.line()) {
		c.add("queue", after.Queue.line())
	}
	if after.TensorBoard != before.TensorBoard && after.TensorBoard != "" {
		c.add("tensorboard", after.TensorBoard)
	}
	if !c.isFirst {
		for _, e := range slices.Backward(after.Events) {
			if !isInStatus(e, is) && !slices.ContainsFunc(before.Events, func(o Event) bool {
				return o.Name == e.Name && o.Time.Equal(e.Time)
			}) {
				c.add("event", e.Reason+": "+e.Message)
			}
		}
	}
	c.lines = append(c.lines, TroubleChanges(before.Trouble, after.Trouble, name, now)...)
	if was.Phase != is.Phase || was.Reason != is.Reason || c.isFirst {
		c.add("phase", after.phaseLine())
	}
	if after.Deleted && !before.Deleted {
		c.add("deleted", "the job no longer exists")
	}
	return c.lines
}

// TroubleChanges returns a line if the cluster can no longer be read, or can be read again.
func TroubleChanges(before, after, name string, now time.Time) []string {
	c := changes{prefix: prefixOf(name, now)}
	switch {
	case after != "" && before == "":
		c.add("trouble", "not up to date: "+after)
	case after == "" && before != "":
		c.add("trouble", "over")
	}
	return c.lines
}

// prefixOf returns the time and the name at the beginning of a line.
func prefixOf(name string, now time.Time) string {
	return now.UTC().Format(time.RFC3339) + " " + printable.Line(name) + " "
}

// changes collects the lines that Changes or TroubleChanges returns.
type changes struct {
	prefix  string
	isFirst bool
	lines   []string
}

// add adds a line.
func (c *changes) add(topic, text string) {
	const most = 1024
	if text = printable.Line(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	c.lines = append(c.lines, c.prefix+topic+": "+text)
}

// addIfNew adds a line with the new text, unless this text is empty or equals the earlier one.
func (c *changes) addIfNew(topic, before, after string) {
	if after != before && after != "" {
		c.add(topic, after)
	}
}

// stalls adds a line if the status of the condition Stalled has changed. It adds none if the condition is new and
// False.
func (c *changes) stalls(before, after Snapshot) {
	was := before.condition(batchv1beta1.ConditionStalled)
	is := after.condition(batchv1beta1.ConditionStalled)
	if was.Status == is.Status || is.Type == "" || was.Type == "" && is.Status == metav1.ConditionFalse {
		return
	}
	c.add("stalled", fmt.Sprintf("%s (%s): %s", is.Status, is.Reason, is.Message))
}

// nodes adds a line for each node that the job begins to avoid or does not avoid anymore.
func (c *changes) nodes(was, is []batchv1beta1.AvoidedNode) {
	has := func(nodes []batchv1beta1.AvoidedNode, name string) bool {
		return slices.ContainsFunc(nodes, func(n batchv1beta1.AvoidedNode) bool { return n.Name == name })
	}
	for _, n := range is {
		if !has(was, n.Name) {
			c.add("avoids", fmt.Sprintf("%s (%s) until %s", n.Name, n.Reason, n.Until.UTC().Format(time.RFC3339)))
		}
	}
	for _, n := range was {
		if !has(is, n.Name) {
			c.add("avoids", n.Name+" no longer")
		}
	}
}

// phaseLine returns the phase, the reason, and the message of the condition that explains the phase.
func (s Snapshot) phaseLine() string {
	status := s.status()
	text := cmp.Or(string(status.Phase), "Pending")
	if status.Reason != "" {
		text += " (" + status.Reason + ")"
	}
	if message := s.message(); message != "" {
		text += ": " + message
	}
	return text
}

// phaseSummary returns how many replicas are in each phase. It is empty without replicas. Unless the job has finished,
// it begins with the replicas that run.
func phaseSummary(replicas []replica, hasFinished bool) string {
	phases := count(replicas)
	var texts []string
	if len(replicas) > 0 && !hasFinished {
		texts = append(texts, fmt.Sprintf("%d of %d running", phases[batchv1beta1.ReplicaPhaseRunning], len(replicas)))
	}
	for _, known := range looks {
		if n := phases[known.phase]; n > 0 && (hasFinished || known.phase != batchv1beta1.ReplicaPhaseRunning) {
			texts = append(texts, known.look.style.Render(fmt.Sprintf("%d %s", n, strings.ToLower(string(known.phase)))))
		}
	}
	return strings.Join(texts, ", ")
}

// inPlaceLine returns the number of restarts in place, and what caused the last one. It is empty if there were none.
func inPlaceLine(r *batchv1beta1.RestartsInPlace) string {
	switch {
	case r == nil:
		return ""
	case len(r.Last) == 0:
		return strconv.Itoa(int(r.Count))
	default:
		return fmt.Sprintf("%d, the last because %s", r.Count, r.Last[0])
	}
}

// progressLine returns the progress and the metrics.
func progressLine(p *batchv1beta1.ProgressStatus) string {
	if p == nil {
		return ""
	}
	texts := []string{cmp.Or(p.Summary, "reported")}
	for _, m := range p.Metrics {
		texts = append(texts, m.Name+"="+m.Value)
	}
	return strings.Join(texts, " ")
}

// line returns the name of the queue and the place of the job in it.
func (q Queue) line() string {
	q.Usage = "" // other jobs change the usage, so the usage would add lines that are not about this job
	return q.summary()
}

// isInStatus reports whether an event only repeats a change of the job's status. Changes returns a separate line for
// such a change.
func isInStatus(e Event, status *batchv1beta1.JobStatus) bool {
	switch e.Reason {
	case batchv1beta1.EventCreated, batchv1beta1.EventRunning, batchv1beta1.EventReplicaFailed,
		batchv1beta1.EventRestarting, batchv1beta1.EventRestartedInPlace, batchv1beta1.EventStalled,
		batchv1beta1.EventProgressing, batchv1beta1.EventNodeAvoided, batchv1beta1.EventNodeAllowed,
		batchv1beta1.EventPaused, batchv1beta1.EventResumed, batchv1beta1.EventCompleted, batchv1beta1.EventFailed:
		return true
	default:
		return e.Reason == status.Reason
	}
}
