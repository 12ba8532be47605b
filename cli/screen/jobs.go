package screen

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Jobs is the state of several jobs at one time.
type Jobs struct {
	// Items are the jobs.
	Items []jobs.Job
	// Namespace is the namespace of the jobs. Empty means that they are of all namespaces.
	Namespace string
	// Missing names the kinds that the user may not read.
	Missing []string
	// Trouble is why the cluster cannot be read at present. Empty means that the cluster can be read.
	Trouble string
}

// notesFrom is the minimum width at which the table of jobs has a column with ages, and at which its notes include
// messages.
const notesFrom = 110

// Table returns the page of jobs for a view: a row for each job. Jobs that have finished are below the others.
func Table(j Jobs, v View, now time.Time) Page {
	where := "all namespaces"
	if j.Namespace != "" {
		where = "namespace " + printable.Line(j.Namespace)
	}
	p := Page{foot: foot(j.Trouble, now)}
	title := strong.Render("Jobs") + quiet.Render("  "+j.summary())
	p.head = []string{spread(title, quiet.Render(where), v.Width), ""}
	items := slices.Clone(j.Items)
	slices.SortStableFunc(items, func(a, b jobs.Job) int {
		return cmp.Or(cmp.Compare(finishedLast(a), finishedLast(b)), jobs.Compare(a, b))
	})
	cells := [][]string{{"JOB", "PHASE", "READY", "PROGRESS", "RESTARTS", "NOTE"}}
	if v.Width >= notesFrom {
		cells[0] = slices.Insert(cells[0], 5, "AGE")
	}
	for _, job := range items {
		cells = append(cells, row(job, v.Width, now))
	}
	if j.Namespace == "" {
		cells[0] = append([]string{"NAMESPACE"}, cells[0]...)
		for i, job := range items {
			cells[i+1] = append([]string{printable.Line(job.GetNamespace())}, cells[i+1]...)
		}
	}
	lines := table(cells, v.Width)
	p.head = append(p.head, lines[0])
	p.body = lines[1:]
	for _, missing := range j.Missing {
		p.body = append(p.body, quiet.Render("Not shown: "+printable.Line(missing)))
	}
	return p
}

// finishedLast returns 1 for a job that has finished, and otherwise 0.
func finishedLast(job jobs.Job) int {
	if job.JobStatus().Finished() {
		return 1
	}
	return 0
}

// summary returns how many jobs run, wait, and have finished.
func (j Jobs) summary() string {
	running, waiting, ended := 0, 0, 0
	for _, job := range j.Items {
		switch {
		case job.JobStatus().Finished():
			ended++
		case (Snapshot{Job: job}).isRunning():
			running++
		default:
			waiting++
		}
	}
	return fmt.Sprintf("%d running, %d waiting, %d finished", running, waiting, ended)
}

// row returns the cells of a job.
func row(job jobs.Job, columns int, now time.Time) []string {
	s, status := Snapshot{Job: job}, job.JobStatus()
	look := lookOfJob(status.Phase)
	phase := look.of(cmp.Or(printable.Line(string(status.Phase)), "Pending"))
	if s.isStalled() {
		phase = waits.Render("▲ Stalled")
	}
	progress := quiet.Render("-")
	if p := status.Progress; p != nil {
		progress = cmp.Or(printable.Line(p.Summary), "-")
		if p.Percent != nil {
			progress = fmt.Sprintf("%s %3d%%", bar(*p.Percent, min(columns/16, 12)), *p.Percent)
		}
	}
	cells := []string{
		printable.Line(job.Ref()), phase, cmp.Or(printable.Line(status.Ready), "-"), progress,
		fmt.Sprintf("%d/%d", status.BackoffCount,
			ptr.Deref(job.Spec().RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)),
	}
	if columns < notesFrom {
		return append(cells, printable.Line(s.shortNote(now)))
	}
	return append(cells, ago(job.GetCreationTimestamp().Time, now), s.note(now))
}

// shortNote returns how long a job has stalled, or how long it will still run. For other jobs, it returns the reason
// of the phase, or an empty string if there is nothing to explain.
func (s Snapshot) shortNote(now time.Time) string {
	status := s.status()
	switch p := status.Progress; {
	case s.isStalled():
		return "for " + ago(s.condition(batchv1beta1.ConditionStalled).LastTransitionTime.Time, now)
	case s.isRunning() && p != nil && p.EstimatedCompletionTime != nil && p.EstimatedCompletionTime.After(now):
		return ago(now, p.EstimatedCompletionTime.Time) + " left"
	case status.Phase == batchv1beta1.JobPhaseSucceeded, status.Reason == batchv1beta1.ReasonReplicasRunning,
		status.Phase == batchv1beta1.JobPhasePaused:
		return ""
	default:
		return status.Reason
	}
}

// note returns the result of shortNote. If a message or the last failure explains this result, the text continues
// with the explanation.
func (s Snapshot) note(now time.Time) string {
	text, status := printable.Line(s.shortNote(now)), s.status()
	switch {
	case s.isStalled():
		return text + quiet.Render("  "+printable.Line(s.condition(batchv1beta1.ConditionStalled).Message))
	case status.Phase == batchv1beta1.JobPhaseFailed && s.explains(status.Reason):
		return text + quiet.Render("  "+s.howFailed(status.Failures[0]))
	case text != "" && text == printable.Line(status.Reason):
		return text + quiet.Render("  "+printable.Line(s.message()))
	default:
		return text
	}
}
