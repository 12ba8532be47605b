package explore

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/kit/model"
)

// The deadlines of trainings in an exploration, and the silence that trainings announce.
const (
	progressDeadline = 20
	startupDeadline  = 25
	silence          = 35 * time.Second
	deadlineMatters  = 30 * time.Second // longer than both deadlines
	reportMatters    = 4 * time.Second  // longer than the tolerance with which the times of reports are compared
	always           = math.MaxInt64 * time.Nanosecond
)

// reporting returns the shape of a job whose training reports its progress.
var reporting = model.Reporting

// progressExplorations returns the small jobs whose training reports its progress.
func progressExplorations() []exploration {
	return []exploration{
		{
			name: "a job of one replica restarts when its training hangs", added: true,
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "hangs at its start", "fails"}, edits: []edit{pauses, resumes},
			budget: allFaults, briefly: 2,
		},
		{
			name:     "a job of one replica only reports that its training hangs",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyNotify))),
			failures: []string{"hangs", "hangs at its start", "reports a step", "fails"}, edits: []edit{pauses, deletes},
			budget: allFaults, briefly: 2,
		},
		{
			name:  "a training announces its silence, is done, or cannot be read",
			shape: reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{
				"hangs", "hangs at its start", "announces a silence", "reports 100 percent", "cannot be read",
			},
			budget: spent{failures: 3, crashes: 1, ticks: 1}, briefly: 3, inTurn: true,
		},
		{
			name:     "the processes of a training start again in their pod",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"starts again", "hangs", "fails"}, edits: []edit{pauses, resumes},
			budget: spent{failures: 3, edits: 2, crashes: 1}, briefly: 2,
		},
		{
			name:     "a training hangs while the controller is away for a long time",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1), stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails", "cannot be read"}, edits: []edit{pauses},
			budget: spent{failures: 2, edits: 1, aways: 1}, briefly: 3, inTurn: true,
		},
		{
			name:     "a training without deadlines reports its steps",
			shape:    reporting(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"reports a step", "cannot be read", "fails"},
			budget:   spent{failures: 3, crashes: 1, conflicts: 1}, briefly: 3, inTurn: true,
		},
		{
			name: "a training of two replicas that restart together hangs", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails", "is deleted"}, edits: []edit{pauses},
			budget: allFaults, briefly: 1,
		},
		{
			name: "a training of two replicas that restart alone hangs while a peer fails", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart))),
			failures: []string{"hangs", "fails"},
			budget:   spent{failures: 2}, briefly: 2,
		},
		{
			name: "a training of two replicas only reports that it hangs while a peer fails", inTurn: true,
			shape: reporting(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyNotify))),
			failures: []string{"hangs", "fails"},
			budget:   spent{failures: 2}, briefly: 2,
		},
		{
			name: "a training hangs while Kueue evicts its job",
			shape: model.InKueue(reporting(model.One(model.OnFailure, model.Limit(1),
				stalls(batchv1beta1.ProgressPolicyRestart)))),
			failures: []string{"hangs"}, kueueEdits: []edit{evicts},
			budget: spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
	}
}

// stalls returns a policy with both deadlines.
func stalls(what batchv1beta1.ProgressPolicy) model.Policy {
	return model.Stalls(what, progressDeadline, startupDeadline)
}

// trainingActions returns the actions of the training of a pod, and of its sidecar. Other actions have variants in
// which the controller does not see the change. These actions have none, because most of them change no object.
func (x options) trainingActions(s *state, pod *corev1.Pod) []action {
	var actions []action
	index := pod.Labels[batchv1beta1.LabelReplicaIndex]
	add := func(what string, how model.Mishap) {
		name := "the training of pod " + index + " " + what
		actions = append(actions, action{name: name, unseen: true, do: func(m *machine) {
			before := m.state.live.Trainings.Training(pod)
			m.happen(pod, how)
			after := m.state.live.Trainings.Training(pod)
			isUnread := after != nil && !after.Unreadable.IsZero()
			isFirst := after != nil && after.Step > 0 && (before == nil || before.Step == 0)
			isRestart := after != nil && before != nil && after.Restarts > before.Restarts
			// See progress.Poller.Changed.
			m.state.Dirty = m.state.Dirty || (isFirst || isUnread || isRestart) && !m.state.away
			if isRestart {
				m.state.inPlace++
			}
		}})
	}
	fault := func(what string, how model.Mishap) {
		if x.left(s, s.spent.failures, x.budget.failures) && slices.Contains(x.failures, what) {
			add(what, how)
			happens := actions[len(actions)-1].do
			actions[len(actions)-1].do = func(m *machine) {
				m.state.spent.failures++
				happens(m)
			}
		}
	}
	training := s.live.Trainings.Training(pod)
	switch {
	case pod.DeletionTimestamp != nil || index != "0":
	case pod.Status.Phase == corev1.PodPending:
		fault("hangs at its start", model.RunsAndHangs)
	case training == nil:
	case !training.Unreadable.IsZero():
		add("can be read again", model.IsReadable)
	default:
		makesProgress := training.Step > 0 && training.Stopped.IsZero()
		if !makesProgress && !training.Done && model.CanReport(pod) {
			add("reports another step", model.Reports)
		}
		if training.Step > 0 {
			fault("starts again", model.StartsAgain)
		}
		if makesProgress {
			fault("reports a step", model.Reports)
			fault("hangs", model.Hangs)
			fault("announces a silence", model.Announces(silence))
			fault("reports 100 percent", model.Completes)
		}
		fault("restarts in place", model.CountsRestart)
		fault("cannot be read", model.IsUnreadable)
	}
	return actions
}

// endStall resets isAnnounced, unless the condition Stalled was True and stays True. After a reset, the next event
// about a stall is about another stall.
func (m *machine) endStall(change model.Change) {
	before, wasJob := change.Before.(framework.Job)
	after, isJob := change.After.(framework.Job)
	isStalled := func(job framework.Job) bool { return model.IsTrue(*job.JobStatus(), batchv1beta1.ConditionStalled) }
	if wasJob && isJob && (!isStalled(before) || !isStalled(after)) {
		m.state.isAnnounced = false
	}
}

// announceStall checks that at most one event reports each stall.
func (m *machine) announceStall() {
	if m.state.isAnnounced {
		m.Errorf("two events report one stall")
	}
	m.state.isAnnounced = true
}

// checkProgressPace checks that the controller waits for view.ProgressInterval after a write of new progress or new
// restarts in place, before it makes a status write that changes nothing else. Each process of the controller must wait
// in this way.
func (m *machine) checkProgressPace(change model.Change, byController bool) {
	before, wasJob := change.Before.(framework.Job)
	after, isJob := change.After.(framework.Job)
	if last := m.state.progressWritten; byController && wasJob && isJob && !last.IsZero() &&
		m.state.now.Sub(last) < view.ProgressInterval && model.ChangesOnlyReadings(*before.JobStatus(), *after.JobStatus()) {
		m.Errorf("a status that reports only progress is written %s after the last progress", m.state.now.Sub(last))
	}
}

// isPolled reports whether the controller reads pods of the job, so that it is reconciled again and again while it
// runs.
func isPolled(m *machine, s *state) bool {
	job := s.live.Objects.Job()
	if job == nil {
		return false
	}
	spec := m.Kind.SpecOf(job)
	return spec.ReportsProgress || spec.RestartsInPlace
}

// onlyPolls reports whether a job is at rest apart from its requeues, which only read its progress or a
// ResourceQuota. The next reconcile of such a job writes nothing and leads to the same state.
func onlyPolls(m *machine, s *state) bool {
	if !isPolled(m, s) && !waitsForQuota(s) || s.Dirty || s.reconcile != nil {
		return false
	}
	m.writes = 0
	next, wrong := m.successor(s, action{do: func(m *machine) {
		m.state.now = m.state.RequeueAt
		m.Clock.SetTime(m.state.now)
		m.state.RequeueAt = time.Time{}
		m.goOn(nil, 1<<30)
	}})
	return m.writes == 0 && len(wrong) == 0 && m.encoder.digest(next) == m.encoder.digest(s)
}

// progress adds the trainings, and the time of the last status write with new progress, to the encoding of a state.
func (e *encoder) progress(s *state) {
	if !s.progressWritten.IsZero() {
		e.tokens = append(e.tokens, token{text: "written"}, token{
			at: s.progressWritten.Unix(), past: int64(view.ProgressInterval / time.Second),
		})
	}
	for _, pod := range s.live.Objects.Pods() {
		training := s.live.Trainings.Training(pod)
		if training == nil {
			continue
		}
		e.text(fmt.Sprintf("training %d %d ", training.Step, training.Restarts))
		e.flags(training.Done, training.Forgotten)
		e.report(training.Reported)
		e.text("stopped ")
		e.time(training.Stopped, deadlineMatters)
		e.text("started ")
		e.time(training.Started, deadlineMatters)
		e.text("silent ")
		e.time(training.SilentUntil, time.Second)
		e.text("unreadable ")
		e.time(training.Unreadable, always)
		e.unread(s, *training)
	}
}

// unread adds a duration to the encoding of a state: how long a training could not be read while the job ran. The
// controller reports such a training in the status only after a delay that is longer than the horizon. The encoded
// times are not enough to know whether the delay is over, because the horizon limits the intervals between them.
func (e *encoder) unread(s *state, training model.Training) {
	job := s.live.Objects.Job()
	if training.Unreadable.IsZero() || job == nil {
		return
	}
	const most = 130 * time.Second // longer than the delay of the controller
	since := training.Unreadable
	if c := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionRunning); c != nil &&
		(training.Forgotten || c.LastTransitionTime.After(since)) {
		since = c.LastTransitionTime.Time
	}
	e.text(fmt.Sprintf("for %s ", min(s.now.Sub(since), most)))
}

// reading adds a reading to the encoding of a state.
func (e *encoder) reading(r progress.Reading) {
	e.text("reading ")
	e.tokens = append(e.tokens, token{name: string(r.UID)})
	e.text(fmt.Sprintf("%d %d %d %t ",
		ptr.Deref(r.State.Step, 0), ptr.Deref(r.State.Percent, 0), r.State.Restarts.Count, r.Err != nil))
	if r.Time.IsZero() {
		return
	}
	e.time(r.Time, always)
	e.report(r.Time.Add(-r.State.SinceReport))
	e.time(r.Time.Add(-r.State.SinceProgress), deadlineMatters)
	e.time(r.Time.Add(r.State.AnnouncedSilence), always)
	if r.State.SinceStart != nil {
		e.text("started ")
		e.time(r.Time.Add(-*r.State.SinceStart), deadlineMatters)
	}
}

// time adds a time to the encoding. The parameter past is how long the time still matters after it has passed. A zero
// time is not added.
func (e *encoder) time(t time.Time, past time.Duration) {
	if !t.IsZero() {
		e.tokens = append(e.tokens, token{at: t.Unix(), past: int64(past / time.Second)})
	}
}

// report adds the time of a report to the encoding. The controller only compares the times of two reports, with a
// tolerance. So the interval between the two times matters only for a few seconds. After that, it only matters
// whether the times are the same.
func (e *encoder) report(t time.Time) {
	if !t.IsZero() {
		e.tokens = append(e.tokens, tokens(reportAt(t))...)
	}
}

// reportText is the text before the time of a report.
const reportText = " reported at "

func reportAt(t time.Time) string {
	return fmt.Sprintf("report-%d%s%s", t.Unix(), reportText, t.UTC().Format(time.RFC3339))
}

// shown returns the encoding of the progress in a status.
func shown(p *batchv1beta1.ProgressStatus) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(" shows %d %d of %s %s ",
		ptr.Deref(p.Step, 0), ptr.Deref(p.Percent, 0), p.Replica, reportAt(p.LastReportTime.Time))
}

// lastReport returns the encoding of the last state of a pod's sidecar, which its termination message contains. The
// encoding is empty if no sidecar has ended.
func lastReport(statuses []corev1.ContainerStatus) string {
	var b strings.Builder
	for _, s := range statuses {
		if s.Name != framework.ProgressContainer || s.State.Terminated == nil {
			continue
		}
		state, err := progress.ParseState([]byte(s.State.Terminated.Message))
		if err != nil {
			panic(err) // the model writes only valid states
		}
		ended := s.State.Terminated.FinishedAt.Time
		fmt.Fprintf(&b, " ended with %d %d %s at %s ", ptr.Deref(state.Step, 0), ptr.Deref(state.Percent, 0),
			reportAt(ended.Add(-state.SinceReport)), ended.Add(-state.SinceProgress).UTC().Format(time.RFC3339))
		if state.SinceStart != nil {
			fmt.Fprintf(&b, "started at %s ", ended.Add(-*state.SinceStart).UTC().Format(time.RFC3339))
		}
	}
	return b.String()
}
