package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// follow prints the log of the leader of a job and the reasons why the job waits, until the job ends. After an
// interrupt, it asks the user what to do with the job.
func (e *environment) follow(ctx context.Context, c *cluster, s *console, job jobs.Job) error {
	reader := newLogReader(c, job.GetNamespace(), logOptions{follow: true, tail: -1})
	reader.whole = true // otherwise, the status line could follow an incomplete line
	f := &runFollower{cluster: c, screen: s, reader: reader, job: job}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = f.run(following)
	}()
	interrupted, signals := ctx.Done(), make(chan os.Signal, 1)
	defer signal.Stop(signals)
	for {
		byPerson := true
		select {
		case <-ended:
			s.setStatus("")
			return result
		case <-interrupted:
			interrupted = nil
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			if first, ok := errors.AsType[signaled](context.Cause(ctx)); ok {
				byPerson = isByPerson(first.signal)
			}
		case next := <-signals:
			byPerson = isByPerson(next)
		}
		choice, err := e.choose(s, job, byPerson, signals)
		if choice == goOn {
			continue
		}
		signal.Stop(signals) // another signal ends the command
		stop()
		<-ended
		s.setStatus("")
		return errors.Join(err, c.act(ctx, s, job, choice))
	}
}

// runFollower follows a job.
type runFollower struct {
	*cluster

	screen *console
	reader *logReader
	job    jobs.Job

	// last is the latest message that has been printed about the state of the job.
	last string
	// The field logged is the UID of the leader's latest pod whose log is printed. The channel logs is closed at the end
	// of this log. After that, isLogged reports whether this log could be read and had lines.
	logged   types.UID
	logs     chan struct{}
	isLogged bool
	// failures are the failures whose output has been shown.
	failures []batchv1beta1.ReplicaFailure
}

// logDelay is how long the command waits for the end of the log after the end of the job.
const logDelay = 10 * time.Second

// run follows the job until it ends. It returns an error if the job has failed, was deleted or cannot be read.
func (f *runFollower) run(ctx context.Context) error {
	ref := f.job.Ref()
	isDeleted, final := false, f.job
	err := f.observeJob(ctx, f.job, func(now *jobs.Job) (bool, error) {
		if isDeleted = now == nil; isDeleted {
			return true, nil
		}
		final = *now
		f.see(ctx, final)
		return final.JobStatus().Finished(), nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w. %s", err, goesOn(f.job))
	case isDeleted:
		return fmt.Errorf("%s was deleted", ref)
	}
	isLogged := false
	if f.logs != nil {
		select {
		case <-f.logs:
			isLogged = f.isLogged
		case <-time.After(logDelay):
			f.screen.message("The end of the log is missing. To read it: kubectl train logs %s", f.job.Typed())
		}
	}
	f.screen.setStatus("")
	if final.JobStatus().Phase == batchv1beta1.JobPhaseSucceeded {
		f.screen.message("%s has succeeded after %s", ref, durationOf(final))
		return nil
	}
	return f.failed(final, isLogged)
}

// failed returns the error about a job that has failed. The error has the output of the replica that failed, unless
// this output has been shown before. The parameter isLogged reports whether the log of the leader has been shown.
func (f *runFollower) failed(job jobs.Job, isLogged bool) error {
	message := ""
	if failed := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionFailed); failed != nil {
		message = failed.Message
	}
	if last := job.LastFailure(); last != nil && (f.hasShown(*last) || isLogged && isInLog(job, *last)) {
		message = jobs.WithoutOutput(message)
	}
	return failure{code: exitJobFailed, error: fmt.Errorf("%s has failed after %s: %s\nTo see why: kubectl train why %s",
		job.Ref(), durationOf(job), printable.Text(message), f.job.Typed())}
}

// isInLog reports whether the log of the leader includes the output of a failed replica. The log includes the output
// of all replicas if the framework has a launcher.
func isInLog(job jobs.Job, failure batchv1beta1.ReplicaFailure) bool {
	leader, err := job.Leader()
	return err == nil && (failure.Replica == leader.Name || job.Spec().HasLauncher)
}

// showFailures shows each new failure that has an exit code and an output, unless the output is in the log of the
// leader.
func (f *runFollower) showFailures(job jobs.Job) {
	for _, failure := range slices.Backward(job.JobStatus().Failures) { // the oldest first
		if f.hasShown(failure) || isInLog(job, failure) || failure.ExitCode == nil || failure.Message == "" {
			continue
		}
		f.failures = append(f.failures, failure)
		f.screen.message("%s:\n%s", printable.Line(describeFailure(failure)), printable.Text(failure.Message))
	}
}

// hasShown reports whether showFailures has shown the output of a failure.
func (f *runFollower) hasShown(failure batchv1beta1.ReplicaFailure) bool {
	return slices.ContainsFunc(f.failures, func(shown batchv1beta1.ReplicaFailure) bool {
		return shown.Replica == failure.Replica && shown.Time.Equal(&failure.Time)
	})
}

// see shows a new state of the job. It prints the log of each new pod of the leader, and the output of other replicas
// that fail.
func (f *runFollower) see(ctx context.Context, job jobs.Job) {
	status := job.JobStatus()
	if status.ObservedGeneration < job.GetGeneration() {
		return // the status does not show the latest change of the spec yet, such as the start of the job
	}
	if message := stateOf(job); message != f.last {
		f.last = message
		f.screen.message("%s", message)
	}
	f.showFailures(job)
	f.screen.setStatus(f.statusLine(job))
	leader, pod, isStarted := leaderOf(job)
	if !isStarted || pod.UID == f.logged {
		return
	}
	f.logged = pod.UID
	before, done := f.logs, make(chan struct{})
	f.logs = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		hasLines := false
		err := f.reader.print(ctx, pod, leader.MainContainer, func(line []byte) error {
			hasLines = true
			f.screen.log(string(bytes.TrimSuffix(line, []byte("\n"))))
			return nil
		}, true)
		f.isLogged = hasLines && err == nil
		if err != nil && ctx.Err() == nil {
			f.screen.message("The log of %s cannot be read: %v", pod.Name, err)
		}
	}()
}

// stateOf returns a message about the state of a job.
func stateOf(job jobs.Job) string {
	status := job.JobStatus()
	switch {
	case status.Phase == batchv1beta1.JobPhaseRunning:
		return fmt.Sprintf("%s runs", job.Ref())
	case status.Phase == batchv1beta1.JobPhasePaused:
		return fmt.Sprintf("%s is paused. To continue it: kubectl train resume %s", job.Ref(), job.Typed())
	case status.Decided():
		return fmt.Sprintf("%s ends", job.Ref())
	}
	message := job.Message()
	return fmt.Sprintf("%s waits: %s%s", job.Ref(), message, hintAboutRoot(message))
}

// statusLine returns the status line of a job, with a bar if the training reports its progress. It omits each metric
// that does not fit completely.
func (f *runFollower) statusLine(job jobs.Job) string {
	status := job.JobStatus()
	line := printable.Line(fmt.Sprintf("%s %s %s", job.Ref(), status.Phase, status.Ready))
	progress := status.Progress
	if progress == nil || progress.Percent == nil {
		return line
	}
	line += fmt.Sprintf("  %s %s", f.screen.bar(float64(*progress.Percent)/100), printable.Line(progress.Summary))
	if end := progress.EstimatedCompletionTime; end != nil {
		line += "  done in " + duration.HumanDuration(time.Until(end.Time))
	}
	for _, metric := range progress.Metrics {
		text := fmt.Sprintf("  %s %s", printable.Line(metric.Name), printable.Line(metric.Value))
		if ansi.StringWidth(line+text) <= f.screen.statusWidth() {
			line += text
		}
	}
	return line
}

// leaderOf returns the leader of a job and its pod, and reports whether the main container of the pod has started.
// The pod has only its name and UID. It is nil if the status does not record the leader.
func leaderOf(job jobs.Job) (leader jobs.Replica, pod *corev1.Pod, isStarted bool) {
	leader, err := job.Leader()
	if err != nil {
		return leader, nil, false // the job is invalid, so it has no replicas
	}
	for replica := range job.JobStatus().EachReplica() {
		if replica.Name != leader.Name {
			continue
		}
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: replica.Name, UID: replica.UID}}
		return leader, pod, slices.ContainsFunc(replica.Containers, func(c batchv1beta1.ContainerStatus) bool {
			return c.Name == leader.MainContainer && c.State != batchv1beta1.ContainerWaiting
		})
	}
	return leader, nil, false
}

// durationOf returns how long a job took from its creation to its end, or 0 if it has not ended.
func durationOf(job jobs.Job) time.Duration {
	end := job.JobStatus().CompletionTime
	if end == nil {
		return 0
	}
	return end.Sub(job.GetCreationTimestamp().Time).Round(time.Second)
}
