package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// defaultShell is the command that debug runs by default: bash if the image has it, and otherwise sh.
var defaultShell = []string{"sh", "-c", "if command -v bash >/dev/null; then exec bash; fi; exec sh"}

// debugOptions are the flags of the command debug.
type debugOptions struct {
	rank               int32
	replica, container string
	stdin              bool
	timeout            time.Duration
}

func newDebug(e *environment) *cobra.Command {
	o := debugOptions{}
	cmd := &cobra.Command{
		Use:   "debug JOB [flags] [-- COMMAND [ARGS...]]",
		Short: "Open a shell in the leader of a debug job",
		Long: `Open a shell in the leader of a job in debug mode, or run a command there. The exit code is that of the command.

A job in debug mode has everything except its training: the pods, the environment, the volumes, and the names by which
the replicas find each other. You start the training by hand, on each replica. The command waits until the job runs.

Debug mode can be chosen only when a job is created: set spec.runMode.debug.enabled.`,
		Example: `  # Create a copy of a job in debug mode, and open a shell in its leader
  kubectl patch --local -f job.yaml --type=merge -o yaml \
    -p '{"metadata": {"name": "digits-debug"}, "spec": {"runMode": {"debug": {"enabled": true}}}}' | kubectl create -f -
  kubectl train debug digits-debug

  # Open a shell in another replica
  kubectl train debug digits-debug --rank=1

  # Run a command in the leader
  kubectl train debug digits-debug -- nvidia-smi`,
		Args:              oneJobBefore("the command to run follows --"),
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.debug(cmd.Context(), args[0], args[1:], o)
		},
	}
	flags := cmd.Flags()
	flags.Int32Var(&o.rank, "rank", 0, "rank of the replica")
	flags.StringVar(&o.replica, "replica", "", "name of the replica, such as worker-1")
	flags.StringVarP(&o.container, "container", "c", "", "name of the container (default: the main container)")
	flags.BoolVarP(&o.stdin, "stdin", "i", false, "pass stdin to COMMAND (a shell and a terminal always get it)")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long to wait until the job runs, such as 5m (0: without limit)")
	addExclusive(cmd, "rank", "replica")
	return cmd
}

// debug runs a command in a replica of a job in debug mode. If the command is empty, debug runs a shell.
func (e *environment) debug(ctx context.Context, name string, command []string, o debugOptions) error {
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	if err := cmp.Or(jobs.CheckDebug(job), jobs.CheckPods(job)); err != nil {
		return err
	}
	replica, err := job.ReplicaOfRank(o.rank)
	if o.replica != "" {
		replica, err = job.ReplicaNamed(o.replica)
	}
	if err != nil {
		return err
	}
	if err := e.await(ctx, c, job, jobs.IsRunning, o.timeout, "the job goes on"); err != nil {
		return err
	}
	container := cmp.Or(o.container, replica.MainContainer)
	isShell := len(command) == 0
	if isShell {
		command = defaultShell
	}
	tty := terminalOf(e.In, e.Out)
	if isShell && tty != nil {
		_, _ = fmt.Fprintf(e.ErrOut, "This is a shell in %s, the replica of rank %d of %d. The training does not run: "+
			"start it by hand, on each replica.\n", replica.Name, replica.Rank, len(job.Replicas()))
	}
	streams := remotecommand.StreamOptions{Stdout: e.Out, Tty: tty != nil}
	if isShell || o.stdin || tty != nil {
		streams.Stdin = e.In
	}
	if tty == nil { // a terminal has no separate stderr
		streams.Stderr = e.ErrOut
	}
	pod := client.ObjectKey{Namespace: job.GetNamespace(), Name: replica.Name}
	err = c.exec(ctx, pod, container, command, streams, tty)
	if exit, ok := errors.AsType[utilexec.ExitError](err); ok && exit.Exited() {
		return failure{error: err, code: exit.ExitStatus()}
	}
	return err
}
