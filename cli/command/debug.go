package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// shell is the command that debug runs by default: bash if the image has it, and otherwise sh.
var shell = []string{"sh", "-c", "if command -v bash >/dev/null; then exec bash; fi; exec sh"}

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
		ValidArgsFunction: e.completeJobs,
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
	cmd.MarkFlagsMutuallyExclusive("rank", "replica")
	return cmd
}

// debug runs a command, or a shell if it is empty, in a replica of a job in debug mode.
func (e *environment) debug(ctx context.Context, name string, command []string, o debugOptions) error {
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	if err := jobs.CheckDebug(job); err != nil {
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
	container := o.container
	if container == "" {
		container = replica.MainContainer
	}
	isShell := len(command) == 0
	if isShell {
		command = shell
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
	if tty == nil { // a terminal has one output
		streams.Stderr = e.ErrOut
	}
	return exec(ctx, c, client.ObjectKey{Namespace: job.GetNamespace(), Name: replica.Name}, &corev1.PodExecOptions{
		Container: container,
		Command:   command,
		Stdin:     streams.Stdin != nil,
		Stdout:    true,
		Stderr:    streams.Stderr != nil,
		TTY:       streams.Tty,
	}, streams, tty)
}

// exec runs a command in a container and returns its exit code as an error. A terminal of nil means none.
func exec(
	ctx context.Context, c *cluster, pod client.ObjectKey, options *corev1.PodExecOptions,
	streams remotecommand.StreamOptions, tty *terminal,
) error {
	core, err := corev1client.NewForConfig(c.config)
	if err != nil {
		return err
	}
	request := core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec)
	executor, err := executorFor(c.config, request)
	if err != nil {
		return err
	}
	stream := func() error { return executor.StreamWithContext(ctx, streams) }
	if tty == nil {
		err = stream()
	} else {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		streams.TerminalSizeQueue = tty.sizes(ctx)
		err = tty.raw(stream)
	}
	var exit utilexec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		return failure{error: err, code: exit.ExitStatus()}
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the connection to %s was lost", pod.Name)
	default:
		return err
	}
}

// executorFor returns an executor that uses WebSockets, or SPDY if the cluster or a proxy does not support them.
func executorFor(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	webSocket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(webSocket, spdy, needsFallback)
}

// needsFallback reports whether a connection failed because WebSockets are not supported.
func needsFallback(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}
