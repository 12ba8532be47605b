package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/observe"
	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Values of --output that are not formats of kubectl.
const (
	outputScreen = "screen"
	outputLines  = "lines"
)

// Values of --until.
const (
	untilRunning  = "running"
	untilFinished = "finished"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	output, until, selector string
	everywhere              bool
	timeout                 time.Duration
}

func newWatch(e *environment) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [JOB]",
		Short: "Show a live view of a job, or of all jobs",
		Long: `Show a live view of a job: its phase and what it waits for, its progress, its replicas, the devices that it holds,
its restarts and its last failure, its place in the queue, and its events. Without a job, show a table of all jobs.

In a terminal, the view is redrawn until the job has finished, and its last state stays in the terminal. Press q to quit
earlier, and the arrow keys to scroll. Otherwise, a line is printed for each change: the time, the job, the topic and the
news. The topics are failure, restarts, in-place, replicas, progress, stalled, avoids, queue, tensorboard, event,
trouble, phase and deleted.

Parts that you may not read are left out, with a remark. If the connection breaks, the command connects again.

The exit code is
  0    if the job has succeeded, or runs with --until=running, or if you press q
  1    if the command failed, for example because the job was deleted or --timeout is over
  2    if the job has failed
  130  if Ctrl-C or a signal ends the command earlier`,
		Example: `  # Watch a job until it has finished
  kubectl train watch digits

  # Wait in a script until a job runs, for at most 10 minutes
  kubectl train watch ptjob/digits --until=running --timeout=10m

  # Print the failures and restarts of a job while it runs
  kubectl train watch digits --output=lines | grep -E ' (failure|restarts): '

  # Watch the jobs of all namespaces
  kubectl train watch -A

  # Wait until all jobs of a sweep have finished
  kubectl train watch -l sweep=lr --until=finished`,
		Args:              atMostOneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(e.Out, args); err != nil {
				return err
			}
			printer, err := printerOf(o.output)
			if err != nil {
				return err
			}
			quiet := *e
			quiet.ErrOut = io.Discard // a warning of the API server on stderr would destroy the screen
			c, err := quiet.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if o.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, o.timeout)
				defer cancel()
			}
			if len(args) == 1 {
				return e.watchJob(ctx, c, args[0], printer, o)
			}
			return e.watchJobs(ctx, c, printer, o)
		},
	}
	addEnum(cmd, &o.output, "output", "o",
		"output format: screen, lines, json or yaml (default: screen in a terminal, and otherwise lines)",
		outputScreen, outputLines, "json", "yaml")
	addEnum(cmd, &o.until, "until", "",
		"when to end: running or finished (default: finished for a job, and never for all jobs)",
		untilRunning, untilFinished)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "fail after this time, such as 10m (default: no limit)")
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "watch the jobs of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "watch only the jobs whose labels match, such as team=vision")
	return cmd
}

// complete checks the flags, and sets the defaults that depend on the arguments or on the terminal.
func (o *watchOptions) complete(out io.Writer, args []string) error {
	switch {
	case len(args) == 1 && (o.everywhere || o.selector != ""):
		return errors.New("-A and -l select jobs of the table: omit them, or omit the job")
	case len(args) == 1 && o.until == "":
		o.until = untilFinished
	}
	switch o.output {
	case "":
		o.output = outputLines
		if canRedraw(out) {
			o.output = outputScreen
		}
	case outputScreen:
		if !canRedraw(out) {
			return errors.New("--output=screen needs a terminal: use --output=lines")
		}
	}
	return nil
}

// canRedraw reports whether the output is a terminal that can move its cursor.
func canRedraw(out io.Writer) bool {
	return ttyOf(out) != nil && os.Getenv("TERM") != "dumb"
}

// watchJob shows a job until it reaches the state of --until, or can no longer reach it.
func (e *environment) watchJob(
	ctx context.Context, c *cluster, name string, printer printers.ResourcePrinter, o watchOptions,
) error {
	job, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	var before *screen.Snapshot
	return live[screen.Snapshot]{
		goesOn: job.Ref() + " goes on",
		follow: func(ctx context.Context) (follower[screen.Snapshot], error) {
			return observe.Follow(ctx, c, job), nil
		},
		outcome: func(s screen.Snapshot) (bool, error) { return outcomeOf(s.Job, s.Deleted, o.until) },
		page:    screen.Job,
		print: func(s screen.Snapshot) error {
			was := before
			before = &s
			return e.printChange(printer, was, s, job.Ref())
		},
	}.run(ctx, e, o)
}

// watchJobs shows the jobs that the flags select.
func (e *environment) watchJobs(
	ctx context.Context, c *cluster, printer printers.ResourcePrinter, o watchOptions,
) error {
	selected, err := labels.Parse(o.selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	options := client.ListOptions{LabelSelector: selected, Namespace: c.namespace}
	if o.everywhere {
		options.Namespace = ""
	}
	known, trouble := map[string]screen.Snapshot{}, ""
	return live[screen.Jobs]{
		goesOn: "the jobs go on",
		follow: func(ctx context.Context) (follower[screen.Jobs], error) {
			return observe.FollowAll(ctx, c, jobs.Kinds, options, printer != nil)
		},
		outcome: func(s screen.Jobs) (bool, error) { return outcomeOfAll(s, o.until) },
		page:    screen.Table,
		print: func(s screen.Jobs) error {
			var lines []string
			if printer == nil {
				lines = screen.TroubleChanges(trouble, s.Trouble, "jobs", time.Now())
			}
			trouble = s.Trouble
			err := e.printLines(lines)
			if err == nil {
				known, err = e.printChanges(known, s, printer)
			}
			return err
		},
	}.run(ctx, e, o)
}

// printChanges prints the changes of the jobs since the snapshots in the parameter known, which the previous call has
// returned. It returns the new snapshots for the next call. The keys of both maps are the names of the jobs.
func (e *environment) printChanges(
	known map[string]screen.Snapshot, all screen.Jobs, printer printers.ResourcePrinter,
) (map[string]screen.Snapshot, error) {
	is := map[string]screen.Snapshot{}
	for _, job := range all.Items {
		name := job.Ref()
		if all.Namespace == "" {
			name = job.GetNamespace() + "/" + name
		}
		s := screen.Snapshot{Job: job}
		is[name] = s
		var was *screen.Snapshot
		if before, ok := known[name]; ok && before.Job.GetUID() == job.GetUID() {
			was = &before
		}
		if err := e.printChange(printer, was, s, name); err != nil {
			return nil, err
		}
	}
	for name, before := range known {
		if _, ok := is[name]; !ok {
			gone := before
			gone.Deleted = true
			if err := e.printChange(printer, &before, gone, name); err != nil {
				return nil, err
			}
		}
	}
	return is, nil
}

// printChange prints the changes of a job since an earlier snapshot, or the whole job if there is no earlier snapshot.
// With a printer, it prints the job as an object if the object has changed.
func (e *environment) printChange(
	printer printers.ResourcePrinter, was *screen.Snapshot, s screen.Snapshot, name string,
) error {
	if printer == nil {
		return e.printLines(screen.Changes(was, s, name, time.Now()))
	}
	if was != nil && was.Job.GetResourceVersion() == s.Job.GetResourceVersion() {
		return nil
	}
	s.Job.GetObjectKind().SetGroupVersionKind(s.Job.Kind.GroupVersionKind)
	return printer.PrintObj(s.Job.Job, e.Out)
}

// outcomeOf reports whether the wait for a job is over: the job has reached the awaited state, or can no longer reach
// it. If so, err is the error of the command. err is nil unless the job has failed, or was deleted before it
// succeeded.
func outcomeOf(job jobs.Job, isDeleted bool, until string) (isDone bool, err error) {
	status := job.JobStatus()
	// ttlSecondsAfterFinished can delete a job before its last status is read: its end is then decided at least
	isOver := status.Finished() || isDeleted && status.Decided()
	switch {
	case isOver && !jobs.Succeeded(*status):
		return true, failure{
			fmt.Errorf("%[1]s failed (%[2]s): kubectl train why -n %[3]s %[1]s explains it",
				job.Ref(), status.Reason, job.GetNamespace()),
			exitJobFailed,
		}
	case isOver:
		return true, nil
	case isDeleted:
		return true, fmt.Errorf("%s was deleted before it finished", job.Ref())
	default:
		isRunning := meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionRunning)
		return until == untilRunning && isRunning, nil
	}
}

// outcomeOfAll reports whether the wait for all jobs is over: each job has reached the awaited state, or can no
// longer reach it. If until is empty, the wait does not end. It also does not end while the jobs of a kind cannot be
// read, since some of these jobs might be unknown. If no jobs match, the wait is over with an error.
func outcomeOfAll(all screen.Jobs, until string) (isDone bool, err error) {
	if until == "" || all.Trouble != "" {
		return false, nil
	}
	if len(all.Items) == 0 {
		return true, errors.New("no jobs match: kubectl train list shows the jobs")
	}
	isDone = true
	var errs []error
	for _, job := range all.Items {
		isJobDone, err := outcomeOf(job, false, until)
		isDone = isDone && isJobDone
		errs = append(errs, err)
	}
	return isDone, errors.Join(errs...)
}

// printerOf returns the printer of an output format of kubectl. For the formats screen and lines, the printer is nil.
func printerOf(output string) (printers.ResourcePrinter, error) {
	if output == outputScreen || output == outputLines {
		return nil, nil //nolint:nilnil // lines and screens need no printer
	}
	return genericclioptions.NewPrintFlags("").WithDefaultOutput(output).ToPrinter()
}

// printLines prints lines.
func (e *environment) printLines(lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(e.Out, line); err != nil {
			return err
		}
	}
	return nil
}
