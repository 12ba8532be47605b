package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// maxStreams is the default of --max-log-requests.
const maxStreams = 50

// logOptions are the flags of the command logs.
type logOptions struct {
	rank        int32
	replica     string
	all, failed bool
	follow      bool
	tail        int64
	since       time.Duration
	timestamps  bool
	container   string
	raw         bool
	maxStreams  int
}

func newLogs(e *environment) *cobra.Command {
	o := logOptions{}
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of the replicas of a job",
		Long: `Print the output of a replica of a job: of the leader, which has rank 0, or of the replica that the flags select.

With -f, the command goes on after restarts with the new pod of the replica, until the job ends. Its exit code is then 2
if the job has failed. If the pod of a replica is gone, the command prints the end of the output that status.failures of
the job has kept.

A rank is the number of a replica in the job. With torchrun, a replica can run several processes with ranks of their own,
and the log of the replica has the output of all of them. Torchrun sorts the replicas by name, so in a job with several
types, its rank 0 is not always in the leader. In a DeepSpeedJob, the log of worker 0 has the output of the
processes of all ranks.

In a terminal, the output is shown without escape sequences and control characters, so that a program cannot change the
terminal or imitate the name of another replica. --raw shows the output as it is, with colors. Redirected output is
always as it is.`,
		Example: `  # Print the output of the leader
  kubectl train logs digits

  # Follow the output of the leader over restarts, until the job ends
  kubectl train logs digits -f

  # Print the last 20 lines of the replica of rank 3
  kubectl train logs digits --rank=3 --tail=20

  # Print the output of the replica that failed first, also if its pod is gone
  kubectl train logs digits --failed

  # Follow the output of all replicas, with the name of the replica before each line
  kubectl train logs digits --all -f`,
		Args:              oneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.logs(cmd.Context(), args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.Int32Var(&o.rank, "rank", 0, "rank of the replica")
	flags.StringVar(&o.replica, "replica", "", "name of the replica, such as worker-1")
	flags.BoolVar(&o.all, "all", false, "print the output of all replicas, with the name of the replica before each line")
	flags.BoolVar(&o.failed, "failed", false, "print the output of the replica that failed first")
	flags.BoolVarP(&o.follow, "follow", "f", false, "follow the output, also of later pods, until the job ends")
	flags.Int64Var(&o.tail, "tail", -1, "number of the last lines to print (-1: all lines)")
	flags.DurationVar(&o.since, "since", 0, "print only lines that are newer than this, such as 5m (0: all lines)")
	flags.BoolVar(&o.timestamps, "timestamps", false, "print the time of each line before it")
	flags.StringVarP(&o.container, "container", "c", "", "name of the container (default: the main container)")
	flags.BoolVar(&o.raw, "raw", false, "also in a terminal, print escape sequences and control characters of the output")
	flags.IntVar(&o.maxStreams, "max-log-requests", maxStreams, "how many replicas --all can follow at the same time")
	addExclusive(cmd, "rank", "replica", "all", "failed")
	addExclusive(cmd, "failed", "follow")
	return cmd
}

// logs prints the output of those replicas of a job that the options select.
func (e *environment) logs(ctx context.Context, name string, o logOptions) error {
	switch {
	case o.tail < -1:
		return fmt.Errorf("--tail=%d must be a number of lines, or -1 for all lines", o.tail)
	case o.since < 0:
		return fmt.Errorf("--since=%s must not be negative", o.since)
	}
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	replicas, err := o.selected(job)
	if err != nil {
		return err
	}
	reader := newLogReader(c, job.GetNamespace(), o)
	if note := o.note(job); note != "" {
		_, _ = fmt.Fprintln(e.ErrOut, "Note:", note)
	}
	if err := jobs.CheckPods(job); err != nil && (o.follow || o.all) {
		return err
	}
	if o.follow {
		return e.followLogs(ctx, c, job, reader, o)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, podsOf(job)...); err != nil {
		return err
	}
	out := o.writer(e.Out)
	var errs []error
	for _, replica := range replicas {
		err := e.printLog(ctx, job, replica, podOf(job, replica, pods.Items), reader, out, o)
		errs = append(errs, err)
		if apierrors.IsForbidden(err) || ctx.Err() != nil {
			break // the other requests would fail, too
		}
	}
	return errors.Join(errs...)
}

// selected returns the replicas whose output is printed.
func (o logOptions) selected(job jobs.Job) ([]jobs.Replica, error) {
	var replica jobs.Replica
	var err error
	switch {
	case o.all:
		replicas := job.Replicas()
		if o.follow && len(replicas) > o.maxStreams {
			err = fmt.Errorf("%s has %d replicas, and --max-log-requests allows %d to be followed at the same time: "+
				"raise it, or choose a replica with --rank", job.Ref(), len(replicas), o.maxStreams)
		}
		return replicas, err
	case o.failed:
		replica, err = job.Failed()
	case o.replica != "":
		replica, err = job.ReplicaNamed(o.replica)
	default:
		replica, err = job.ReplicaOfRank(o.rank)
	}
	return []jobs.Replica{replica}, err
}

// note returns an explanation of how the ranks of processes relate to the selected replica. It is empty if the user
// needs no explanation, for example because --all, --failed or --replica selects the replicas.
func (o logOptions) note(job jobs.Job) string {
	switch {
	case o.rank > 0:
		return job.RankNote()
	case o.all || o.failed || o.replica != "":
		return ""
	default:
		return job.FirstProcessNote()
	}
}

// printLog prints the output of a replica from its pod. If the pod or its output is gone, printLog prints the part of
// the output that the status of the job has kept. With --failed, it also prints this part if the pod has not failed.
func (e *environment) printLog(
	ctx context.Context, job jobs.Job, replica jobs.Replica, pod *corev1.Pod, reader *logReader, out *lockedWriter,
	o logOptions,
) error {
	container := cmp.Or(o.container, replica.MainContainer)
	if pod != nil && o.failed && o.container == "" {
		container = failedContainer(pod, container)
	}
	if pod == nil || o.failed && !hasFailed(pod, container) {
		return e.printFailure(job, replica, o)
	}
	if state := waitingState(pod, container); state != "" {
		return fmt.Errorf("%s has no output yet: %s. To follow it from its start, add -f; kubectl train why %s explains "+
			"what it waits for", replica.Name, printable.Text(state), job.Typed())
	}
	err := cmp.Or(reader.print(ctx, pod, container, o.writeTo(out, job, replica), true), out.end())
	if errors.Is(err, errLogLost) {
		return e.printFailure(job, replica, o)
	}
	if o.all && err != nil {
		return fmt.Errorf("%s: %w", replica.Name, err)
	}
	return err
}

// writeTo returns the function that writes the output of a replica: as it arrives or, with --all, line by line.
func (o logOptions) writeTo(out *lockedWriter, job jobs.Job, replica jobs.Replica) func([]byte) error {
	if o.all {
		return out.withPrefix("[" + job.ShortName(replica.Name) + "] ")
	}
	return out.piece
}

// printFailure prints the output of a failed replica, as far as the status of the job has kept it. With --failed, it
// prints the output of the last recorded failure. If the status has no such failure, printFailure returns an error
// or, with --all, prints a message.
func (e *environment) printFailure(job jobs.Job, replica jobs.Replica, o logOptions) error {
	failure := job.FailureOf(replica.Name)
	if o.failed {
		failure = job.LastFailure()
	}
	hint := ""
	if last := job.LastFailure(); last != nil && !o.all && !o.failed && last.Replica != replica.Name {
		hint = fmt.Sprintf("kubectl train logs %s --failed prints the output of %s, which failed first", job.Typed(),
			printable.Line(last.Replica))
	}
	switch {
	case failure == nil && jobs.CheckPods(job) != nil:
		return jobs.CheckPods(job)
	case failure == nil && o.all:
		_, err := fmt.Fprintf(e.ErrOut, "%s has no pod, and status.failures has no output of it.\n", replica.Name)
		return err
	case failure == nil:
		return fmt.Errorf("%s has no pod, and status.failures of %s has no output of it: %s", replica.Name, job.Ref(),
			cmp.Or(hint, "kubectl train why "+job.Typed()+" explains the state of the job"))
	}
	_, err := fmt.Fprintf(e.ErrOut, "The pod is gone. status.failures has kept the end of its output: %s, %s ago.\n",
		printable.Text(describeFailure(*failure)), duration.HumanDuration(time.Since(failure.Time.Time)))
	if err == nil && hint != "" {
		_, err = fmt.Fprintln(e.ErrOut, hint+".")
	}
	if err != nil || failure.Message == "" {
		return err
	}
	_, err = fmt.Fprintln(e.Out, printable.Text(failure.Message))
	return err
}

// describeFailure describes a failure in one line.
func describeFailure(failure batchv1beta1.ReplicaFailure) string {
	text := failure.Replica + " failed"
	if failure.ExitCode != nil {
		text += fmt.Sprintf(" with exit code %d", *failure.ExitCode)
	}
	text += " (" + failure.Reason + ")"
	if failure.Rank != nil {
		text += fmt.Sprintf(", rank %d", *failure.Rank)
	}
	if failure.Node != "" {
		text += " on node " + failure.Node
	}
	return text
}

// podOf returns the pod of a replica, or nil if there is none. It ignores a pod with the same name that belongs to an
// earlier job.
func podOf(job jobs.Job, replica jobs.Replica, pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		if pods[i].Name == replica.Name && metav1.IsControlledBy(&pods[i], job) {
			return &pods[i]
		}
	}
	return nil
}

// containerStatus returns the status of a container of a pod, or nil.
func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	return policy.ContainerStatus(slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses), name)
}

// hasFailed reports whether a container of a pod has ended with an error.
func hasFailed(pod *corev1.Pod, container string) bool {
	status := containerStatus(pod, container)
	return status != nil && status.State.Terminated != nil && status.State.Terminated.ExitCode != 0
}

// failedContainer returns the name of the container whose failure made the replica fail. This is a failed init
// container, if there is one and the main container has not ended. Otherwise, it is the main container.
func failedContainer(pod *corev1.Pod, main string) string {
	if status := containerStatus(pod, main); status != nil && status.State.Terminated != nil {
		return main
	}
	for _, init := range slices.Backward(pod.Status.InitContainerStatuses) {
		if hasFailed(pod, init.Name) {
			return init.Name
		}
	}
	return main
}

// hasEnded reports whether a container of a pod has ended, so that its output is complete.
func hasEnded(pod *corev1.Pod, container string) bool {
	status := containerStatus(pod, container)
	isOver := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return isOver || status != nil && status.State.Terminated != nil
}

// waitingState returns a description of the state of a container that has not started yet. It is empty if the
// container has started, or if the pod has ended or has no such container.
func waitingState(pod *corev1.Pod, container string) string {
	status := containerStatus(pod, container)
	switch {
	case status != nil && (status.State.Running != nil || status.State.Terminated != nil || status.RestartCount > 0):
		return ""
	case status == nil && !hasContainer(pod, container), hasEnded(pod, container):
		return "" // the API server explains the problem when the output is requested
	case status != nil && status.State.Waiting != nil && status.State.Waiting.Message != "":
		return status.State.Waiting.Reason + ": " + status.State.Waiting.Message
	case status != nil && status.State.Waiting != nil:
		return "its container waits (" + status.State.Waiting.Reason + ")"
	default:
		return "its pod is " + string(pod.Status.Phase)
	}
}

// hasContainer reports whether a pod has a container.
func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers),
		func(c corev1.Container) bool { return c.Name == name })
}

// lockedWriter writes whole lines of several replicas, or the output of one replica as it arrives.
type lockedWriter struct {
	mutex  sync.Mutex
	writer io.Writer
	// isTerminal reports whether the writer is a terminal. If isClean is true, the output is made printable. isStamped
	// reports whether lines begin with a time.
	isTerminal, isClean, isStamped bool
	// stream makes the output of one replica printable. isOpen reports whether the last line of this output has no line
	// feed yet.
	stream printable.Stream
	isOpen bool
}

// writer returns a lockedWriter that writes to out.
func (o logOptions) writer(out io.Writer) *lockedWriter {
	isTerminal := ttyOf(out) != nil
	return &lockedWriter{
		writer: out, isTerminal: isTerminal, isClean: isTerminal && !o.raw, isStamped: o.timestamps,
		stream: printable.Stream{Stamped: o.timestamps},
	}
}

// piece writes a piece of the output of one replica.
func (w *lockedWriter) piece(piece []byte) error {
	w.isOpen = !bytes.HasSuffix(piece, []byte("\n"))
	if w.isClean {
		piece = w.stream.Printable(piece)
	}
	_, err := w.writer.Write(piece)
	return err
}

// endLine writes a line feed if the last line of the output of one replica has none.
func (w *lockedWriter) endLine() error {
	if !w.isOpen {
		return nil
	}
	return w.piece([]byte("\n"))
}

// end is called after the output of one replica. In a terminal, it ends the last line, so that the next text begins
// on a new line.
func (w *lockedWriter) end() error {
	if !w.isTerminal {
		return nil
	}
	return w.endLine()
}

// withPrefix returns a function that writes a line, or a piece of a very long line, with a prefix. Each of them must
// end with a line feed: otherwise, the next one could erase the prefix in a terminal.
func (w *lockedWriter) withPrefix(prefix string) func(line []byte) error {
	stream := printable.Stream{Stamped: w.isStamped}
	return func(line []byte) error {
		if w.isClean {
			line = stream.Printable(line)
		}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		_, err := w.writer.Write(append([]byte(prefix), line...))
		return err
	}
}
