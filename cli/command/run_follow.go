package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// follow prints the log of the leader of a job and the reasons why the job waits, until the job ends. After an
// interrupt, it asks what to do with the job.
func (e *environment) follow(ctx context.Context, c *cluster, s *console, job jobs.Job) error {
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	f := &runFollower{cluster: c, screen: s, pods: clients, job: job}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = f.run(following)
	}()
	for interrupts := firstInterrupt(ctx); ; interrupts = laterInterrupts() {
		select {
		case <-ended:
			s.setStatus("")
			return result
		case byPerson := <-interrupts:
			choice, err := e.choose(s, job, byPerson)
			if choice == goOn {
				continue
			}
			stop()
			<-ended
			s.setStatus("")
			return errors.Join(err, c.act(ctx, s, job, choice))
		}
	}
}

// runFollower follows a job.
type runFollower struct {
	*cluster

	screen *console
	pods   kubernetes.Interface
	job    jobs.Job

	// last is the last message about the state of the job.
	last string
	// logged is the UID of the last leader whose log is printed, and logs is closed at the end of its log.
	logged types.UID
	logs   chan struct{}
}

// logDelay is how long the end of a log can come after the end of the job.
const logDelay = 10 * time.Second

// run follows the job until it ends. It returns an error if the job has failed.
func (f *runFollower) run(ctx context.Context) error {
	ref := f.job.Ref()
	var final jobs.Job
	err := jobs.Follow(ctx, f.cluster, f.job.Kind, f.job.GetNamespace(), f.job.GetName(), f.job.GetUID(),
		func(job jobs.Job) bool {
			final = job
			f.see(ctx, job)
			return job.JobStatus().Finished()
		})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s was deleted", ref)
	}
	if err != nil {
		return err
	}
	if f.logs != nil {
		select {
		case <-f.logs:
		case <-time.After(logDelay):
		}
	}
	f.screen.setStatus("")
	if final.JobStatus().Phase == batchv1beta1.JobPhaseSucceeded {
		f.screen.message("%s has succeeded after %s", ref, durationOf(final))
		return nil
	}
	message := ""
	if failed := meta.FindStatusCondition(final.JobStatus().Conditions, batchv1beta1.ConditionFailed); failed != nil {
		message = failed.Message
	}
	return failure{code: exitJobFailed, error: fmt.Errorf("%s has failed after %s: %s\nTo see why: kubectl train why %s",
		ref, durationOf(final), printable.Text(message), ref)}
}

// see shows a state of the job. It prints the log of each new leader.
func (f *runFollower) see(ctx context.Context, job jobs.Job) {
	status := job.JobStatus()
	if status.ObservedGeneration < job.GetGeneration() {
		return // the status is older than the start of the job
	}
	if message := stateOf(job); message != f.last {
		f.last = message
		f.screen.message("%s", message)
	}
	f.screen.setStatus(f.statusLine(job))
	leader, uid, started := leaderOf(job)
	if !started || uid == f.logged {
		return
	}
	f.logged = uid
	before, done := f.logs, make(chan struct{})
	f.logs = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		f.printLog(ctx, leader, uid)
	}()
}

// stateOf returns the state of a job in a line.
func stateOf(job jobs.Job) string {
	status := job.JobStatus()
	switch {
	case status.Phase == batchv1beta1.JobPhaseRunning:
		return fmt.Sprintf("%s runs", job.Ref())
	case status.Phase == batchv1beta1.JobPhasePaused:
		return fmt.Sprintf("%s is paused. To continue it: kubectl train resume %s", job.Ref(), job.Ref())
	case status.Decided():
		return fmt.Sprintf("%s ends", job.Ref())
	}
	message := messageOf(job)
	return fmt.Sprintf("%s waits: %s%s", job.Ref(), message, hintAboutRoot(message))
}

// statusLine returns the status line of a job, with a bar if the training reports its progress.
func (f *runFollower) statusLine(job jobs.Job) string {
	status := job.JobStatus()
	line := fmt.Sprintf("%s %s %s", job.Ref(), status.Phase, status.Ready)
	progress := status.Progress
	if progress == nil || progress.Percent == nil {
		return line
	}
	line += fmt.Sprintf("  %s %s", f.screen.bar(float64(*progress.Percent)/100), printable.Text(progress.Summary))
	if end := progress.EstimatedCompletionTime; end != nil {
		line += "  done in " + duration.HumanDuration(time.Until(end.Time))
	}
	for _, metric := range progress.Metrics {
		line += fmt.Sprintf("  %s %s", printable.Text(metric.Name), printable.Text(metric.Value))
	}
	return line
}

// leaderOf returns the name and the UID of the leader's pod, and whether its main container has started.
func leaderOf(job jobs.Job) (name string, uid types.UID, started bool) {
	name = leaderName(job)
	for _, task := range job.JobStatus().Tasks {
		for _, replica := range task.Replicas {
			if replica.Name != name {
				continue
			}
			for _, c := range replica.Containers {
				if c.Name == job.Kind.MainContainers[0] && c.State != batchv1beta1.ContainerWaiting {
					return name, replica.UID, true
				}
			}
		}
	}
	return name, "", false
}

// leaderName returns the name of the leader.
func leaderName(job jobs.Job) string {
	gang := framework.NewGang(job.GetNamespace(), job.GetName(), job.GetUID(), "", 0, job.Spec().Roles)
	if len(gang.Members) == 0 {
		return ""
	}
	return gang.Leader().Name
}

// printLog prints the log of a pod until the main container ends. If the connection is lost, it continues after the
// last line.
func (f *runFollower) printLog(ctx context.Context, pod string, uid types.UID) {
	var last time.Time
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		options := &corev1.PodLogOptions{Container: f.job.Kind.MainContainers[0], Follow: true, Timestamps: true}
		if !last.IsZero() {
			options.SinceTime = &metav1.Time{Time: last}
		}
		stream, err := f.pods.CoreV1().Pods(f.job.GetNamespace()).GetLogs(pod, options).Stream(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsForbidden(err):
			return false, err
		case err == nil:
			last = f.printLines(stream, last)
			_ = stream.Close() // it was only read
		}
		return f.hasEnded(ctx, pod, uid), nil
	})
	if err != nil && ctx.Err() == nil {
		f.screen.message("The log of %s cannot be read: %v", pod, err)
	}
}

// hasEnded reports whether the main container of a pod has ended, or the pod is gone.
func (f *runFollower) hasEnded(ctx context.Context, name string, uid types.UID) bool {
	var pod corev1.Pod
	err := f.Get(ctx, client.ObjectKey{Namespace: f.job.GetNamespace(), Name: name}, &pod)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == f.job.Kind.MainContainers[0] && c.State.Terminated == nil {
			return pod.UID != uid
		}
	}
	return true
}

// printLines prints the lines of a log that are later than a time. It returns the time of the last line.
func (f *runFollower) printLines(stream io.Reader, last time.Time) time.Time {
	lines := bufio.NewReaderSize(stream, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			text := strings.TrimSuffix(string(line), "\n")
			stamp, rest, _ := strings.Cut(text, " ")
			if at, parseErr := time.Parse(time.RFC3339Nano, stamp); parseErr != nil {
				f.screen.log(text) // the rest of a long line
			} else if at.After(last) {
				last = at
				f.screen.log(rest)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return last
		}
	}
}
