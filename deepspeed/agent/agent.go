// Package agent is what runs in the containers of a DeepSpeed job besides the training: the ssh server of every worker,
// the ssh client that DeepSpeed and pdsh call, and the launcher's wrapper on worker 0. It works in any image and as any
// user, without capabilities; the image needs DeepSpeed and pdsh, but neither an ssh server nor an ssh client.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Where a worker has what the agent needs, unless flags say otherwise.
const (
	// Folder is where install puts the agent, and ssh as a name of it.
	Folder = "/t9k/agent"
	// Hostfile is what the launcher reads: a host a line, with its slots.
	Hostfile = "/t9k/hostfile"
	// Key is the private key of the job, in OpenSSH's format. It is the key of every server and of every client.
	Key = "/t9k/ssh/ssh-privatekey"
	// Port is what the ssh servers listen on. It needs no privilege.
	Port = 2222
)

// Exit codes of the agent itself. 126, 127 and 128+n mean what they mean to a shell.
const (
	exitSoftware   = 70 // EX_SOFTWARE of sysexits.h
	exitCannotRun  = 126
	exitNotFound   = 127
	exitSignal     = 128
	exitTerminated = exitSignal + int(syscall.SIGTERM)
	exitLost       = 255
)

// options are the flags of the agent, and what only tests set.
type options struct {
	host        string
	workers     int
	min, max    int
	slots       int
	port        int
	firstPort   int // that of worker 0 if workers have different ones: see EnvAddresses; 0 is none
	key         string
	hostfile    string
	withoutEnv  []string
	secretEnv   []string
	need        []string
	trust       bool
	grace       time.Duration
	killAfter   time.Duration
	address     string // to listen on; empty is all
	folder      string // where ssh is
	environment []string
	stdout      *os.File
	stderr      *os.File
	log         *log.Logger
	timing      timing
}

// timing is how long things take that no flag sets.
type timing struct {
	keepAlive time.Duration // between two signs of life on a connection, three of which may be missing
	dial      time.Duration // for a connection, with key exchange and authentication
	retry     time.Duration // between two attempts to reach workers that are yet to come
	remind    time.Duration // between two lines that say who is missing
	kill      time.Duration // from the launcher's TERM to its KILL, and for the node commands to end after the launcher
	settle    time.Duration // for which the workers of an elastic training must have been the same
	probe     time.Duration // between two looks at who is there during an elastic training
	blame     time.Duration // after a failure, for which a lost worker is taken as its cause
}

func defaults() options {
	host, firstPort := addresses()
	return options{
		host: host, workers: 1, slots: 1, port: Port, firstPort: firstPort, key: Key, hostfile: Hostfile,
		grace: 30 * time.Second, killAfter: 10 * time.Second,
		folder: Folder, environment: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		log: newLogger(os.Stderr),
		timing: timing{
			keepAlive: 10 * time.Second, dial: 10 * time.Second,
			retry: time.Second, remind: 30 * time.Second, kill: 30 * time.Second,
			settle: 3 * time.Second, probe: 3 * time.Second, blame: 15 * time.Second,
		},
	}
}

func newLogger(w io.Writer) *log.Logger { return log.New(w, "agent: ", log.Lmsgprefix) }

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.host, "host", o.host,
		"host names of the workers, with one %d for the index, such as digits-worker-%d.digits.team.svc.cluster.local")
	flags.IntVar(&o.workers, "workers", o.workers,
		"number of workers, which the hostfile lists; in an elastic training launch finds out itself")
	flags.IntVar(&o.min, "min-workers", 0, "fewest workers that an elastic training runs with")
	flags.IntVar(&o.max, "max-workers", 0, "most workers that an elastic training may have; 0 is not elastic")
	flags.IntVar(&o.slots, "slots", o.slots, "training processes of each worker")
	flags.IntVar(&o.port, "port", o.port,
		"port of the ssh server, and of those of all workers unless "+EnvAddresses+" is set")
	flags.StringVar(&o.key, "key", o.key, "private key of the job")
	flags.StringVar(&o.hostfile, "hostfile", o.hostfile, "hostfile to write")
	flags.StringArrayVar(&o.withoutEnv, "without-env", nil,
		"environment variable that training processes do not get; may be repeated")
	flags.StringArrayVar(
		&o.secretEnv,
		"secret-env",
		nil,
		"environment variable that the launcher does not get, since it would print it; training processes do; may be repeated",
	)
	flags.StringArrayVar(&o.need, "need", nil, "program that must be in the image for the launcher; may be repeated")
	flags.BoolVar(&o.trust, "trust-launcher", false,
		"exit as the launcher does, whatever became of its node commands, some of which may fail: for autotuning")
	flags.DurationVar(&o.grace, "grace", o.grace,
		"time that the launcher gets to end by itself after the first of its node commands failed")
	flags.DurationVar(&o.killAfter, "kill-after", o.killAfter,
		"time from TERM to KILL for the processes of a session that was ended")
}

func (o *options) validate() error {
	elastic := o.min != 0 || o.max != 0
	switch {
	case !validFormat(o.host):
		return fmt.Errorf("--host must have one %%d for the worker's index and no other %%, got %q", o.host)
	case o.workers < 1 || o.slots < 1:
		return fmt.Errorf("--workers and --slots must be at least 1, got %d and %d", o.workers, o.slots)
	case elastic && (o.min < 1 || o.max < o.min):
		return fmt.Errorf("--min-workers must be from 1 to --max-workers, got %d and %d", o.min, o.max)
	}
	return nil
}

func (o *options) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return nil, fmt.Errorf(
			"cannot serve ssh: %w: the port must be free in the pod, and with hostNetwork on its node", err)
	}
	return l, nil
}

// exitError is an end of the agent with a code that says more than failure. Its message, if any, is yet to be printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs the agent and ends the process, if it was called by one of the agent's names (agent, ssh) or with agent as
// the first argument. Otherwise it returns.
func Main() {
	args := os.Args
	name := filepath.Base(args[0])
	switch {
	case name == "ssh":
		os.Exit(sshMain(args[1:]))
	case name == "agent":
	case len(args) > 1 && args[1] == "agent":
		args = args[1:]
	default:
		return
	}
	if os.Getpid() == 1 {
		os.Exit(runInit(os.Args))
	}
	cmd := Command()
	cmd.SetArgs(args[1:])
	os.Exit(exitCodeOf(cmd.Execute()))
}

// exitCodeOf prints the error, if there is anything to say, and returns what the process exits with.
func exitCodeOf(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		if exit.err != nil {
			newLogger(os.Stderr).Print(exit.err)
		}
		return exit.code
	}
	newLogger(os.Stderr).Print(err)
	return exitSoftware
}

// Command returns the command line of the agent.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "agent",
		Short:         "Runs in the containers of a DeepSpeed job",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	o := defaults()
	serve := &cobra.Command{
		Use:   "serve",
		Short: "Write the hostfile and serve ssh until SIGTERM",
		Args:  cobra.NoArgs,
		RunE:  untilTerminated(func(ctx context.Context, _ []string) error { return serve(ctx, &o) }, &o),
	}
	launch := &cobra.Command{
		Use:   "launch [flags] -- COMMAND...",
		Short: "Serve ssh, run the launcher once all workers are there, and exit as the training did",
		Args:  cobra.MinimumNArgs(1),
		RunE:  untilTerminated(func(ctx context.Context, args []string) error { return launch(ctx, &o, args) }, &o),
	}
	run := &cobra.Command{
		Use:   "run [flags] -- COMMAND...",
		Short: "Run a launcher with the PATH and the environment that launch gives it, for debug mode",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return run(&o, args) },
	}
	for _, c := range []*cobra.Command{serve, launch, run} {
		o.addFlags(c.Flags())
	}
	install := &cobra.Command{
		Use:   "install FOLDER",
		Short: "Copy the agent into a folder that the containers of the pod share",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return install(args[0]) },
	}
	cmd.AddCommand(install, serve, launch, run)
	return cmd
}

// untilTerminated checks the flags and gives the command a context that ends with SIGTERM or SIGINT.
func untilTerminated(command func(context.Context, []string) error, o *options) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return command(ctx, args)
	}
}
