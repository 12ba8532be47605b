// Package agent implements the agent of a DeepSpeedJob, which runs in the containers of the workers. It is the ssh
// server of every worker, the ssh client that DeepSpeed and pdsh call, and the wrapper of the launcher on worker 0. The
// agent works in any image and as any user, without capabilities. The image needs DeepSpeed and pdsh, but neither an
// ssh server nor an ssh client.
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

	"tensorstack.dev/jobs/common/helper"
	"tensorstack.dev/jobs/common/listen"
)

// Default paths and the default port in a worker. Flags override all of them except Folder.
const (
	// Folder is the folder to which Install copies the agent. It also contains ssh, a link to the agent.
	Folder = "/t9k/agent"
	// Hostfile is the file that the launcher reads. Each line has a host and its number of slots.
	Hostfile = "/t9k/hostfile"
	// Key is the file with the private key of the job, in OpenSSH's format. All servers and clients have the same key.
	Key = "/t9k/ssh/ssh-privatekey"
	// Port is the port of the ssh servers. A process needs no privilege to listen on it.
	Port = 2222
)

// Exit codes of the agent itself. It also exits with the codes that a shell uses if a program cannot be run.
const (
	exitSoftware   = 70 // EX_SOFTWARE of sysexits.h
	exitTerminated = helper.ExitSignal + int(syscall.SIGTERM)
	exitLost       = 255
)

// options holds the flags of the agent, and settings that only tests change.
type options struct {
	host        string
	workers     int
	min, max    int
	slots       int
	restarts    int    // limit of restarts in place
	answer      int    // port at which the controller reads the restarts in place
	attempt     string // ID of the attempt, which is the token for reading them
	port        int
	firstPort   int // port of worker 0 if EnvAddresses is set, otherwise 0
	key         string
	hostfile    string
	withoutEnv  []string
	secretEnv   []string
	need        []string
	program     int // how many words at the end of the launcher's command are the program and its arguments
	trust       bool
	grace       time.Duration
	killAfter   time.Duration
	address     string // address to listen on; empty means all addresses
	folder      string // folder of the link ssh
	environment []string
	stdout      *os.File
	stderr      *os.File
	log         *log.Logger
	timing      timing
}

// timing holds the durations that no flag sets.
type timing struct {
	keepAlive time.Duration // interval of keep-alive requests; a reply can take three intervals
	dial      time.Duration // timeout for a connection, including key exchange and authentication
	retry     time.Duration // interval of attempts to reach missing workers
	remind    time.Duration // interval of log lines about missing workers
	kill      time.Duration // time from SIGTERM to SIGKILL for the launcher, and then time limit for its node commands
	settle    time.Duration // how long the workers must be the same before an elastic training starts
	probe     time.Duration // interval of checks for changed workers during an elastic training
	blame     time.Duration // a change of the workers within this time after a failure counts as the cause
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
		"host names of the workers, with %d for the index, for example digits-worker-%d.digits.team.svc.cluster.local")
	flags.IntVar(&o.workers, "workers", o.workers,
		"number of workers in the hostfile; in an elastic training, launch determines it")
	flags.IntVar(&o.min, "min-workers", 0, "minimum number of workers of an elastic training")
	flags.IntVar(&o.max, "max-workers", 0,
		"maximum number of workers of an elastic training; 0 means that the training is not elastic")
	flags.IntVar(&o.slots, "slots", o.slots, "number of training processes of each worker")
	flags.IntVar(&o.restarts, "max-restarts", 0,
		"how often launch runs the launcher again in the same pods after a training process has failed")
	flags.IntVar(&o.answer, "restarts-port", 0,
		"port at which the job controller reads the restarts in place; 0 means none")
	flags.StringVar(&o.attempt, "attempt", "", "ID of the attempt of the job, which a reader of the restarts must know")
	flags.IntVar(&o.port, "port", o.port,
		"port of the ssh server; all workers have the same port unless "+EnvAddresses+" is set")
	flags.StringVar(&o.key, "key", o.key, "private key of the job")
	flags.StringVar(&o.hostfile, "hostfile", o.hostfile, "hostfile to write")
	flags.StringArrayVar(&o.withoutEnv, "without-env", nil,
		"environment variable to withhold from training processes; can be repeated")
	flags.StringArrayVar(&o.secretEnv, "secret-env", nil,
		"environment variable to withhold from the launcher, which would print it, but not from training processes; "+
			"can be repeated")
	flags.StringArrayVar(&o.need, "need", nil, "program that the launcher needs in the image; can be repeated")
	flags.IntVar(&o.program, "program", 0,
		"number of the last words of COMMAND that are the training program and its arguments, which each rank gets exactly; "+
			"other words can be changed by the shells of the hosts")
	flags.BoolVar(&o.trust, "trust-launcher", false,
		"exit with the exit code of the launcher even if node commands fail, for autotuning")
	flags.DurationVar(&o.grace, "grace", o.grace,
		"how long the launcher has to end by itself after the first node command failed")
	flags.DurationVar(&o.killAfter, "kill-after", o.killAfter,
		"time from SIGTERM to SIGKILL for the processes of a session that is ended")
}

func (o *options) validate() error {
	elastic := o.min != 0 || o.max != 0
	switch {
	case !validFormat(o.host):
		return fmt.Errorf("--host must contain %%d once, for the index of the worker, and no other %%, got %q", o.host)
	case o.workers < 1 || o.slots < 1:
		return fmt.Errorf("--workers and --slots must be at least 1, got %d and %d", o.workers, o.slots)
	case elastic && (o.min < 1 || o.max < o.min):
		return fmt.Errorf("--min-workers must be from 1 to --max-workers, got %d and %d", o.min, o.max)
	case o.restarts < 0:
		return fmt.Errorf("--max-restarts must be at least 0, got %d", o.restarts)
	case o.answer != 0 && o.attempt == "":
		return errors.New("--restarts-port needs --attempt")
	}
	return nil
}

// maxUnknown is the number of connections that a server keeps from peers that are not authenticated yet. Each
// connection can hold a packet of 256 KiB, in the memory of the training container.
const maxUnknown = 32

func (o *options) listen(ctx context.Context) (net.Listener, error) {
	l, err := listen.TCP(ctx, net.JoinHostPort(o.address, strconv.Itoa(o.port)), maxUnknown)
	if err != nil {
		return nil, fmt.Errorf(
			"cannot serve ssh: %w: the port must be free in the pod, and with hostNetwork on its node", err)
	}
	return l, nil
}

// exitError ends the agent with a specific exit code. Its message, if any, has not been printed yet.
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

// Main runs the agent and ends the process, if the program was called as agent or ssh, or with agent as the first
// argument. Otherwise, it returns.
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

// exitCodeOf prints the message of the error, if it has one, and returns the exit code of the process.
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
		Short:         "The agent in the containers of a DeepSpeedJob",
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
		Short: "Serve ssh, run the launcher when all workers accept ssh, and exit with the exit code of the training",
		Args:  cobra.MinimumNArgs(1),
		RunE:  untilTerminated(func(ctx context.Context, args []string) error { return launch(ctx, &o, args) }, &o),
	}
	run := &cobra.Command{
		Use:   "run [flags] -- COMMAND...",
		Short: "Run a launcher with the same PATH and environment as launch does, for debug mode",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return run(&o, args) },
	}
	for _, c := range []*cobra.Command{serve, launch, run} {
		o.addFlags(c.Flags())
	}
	cmd.AddCommand(serve, launch, run)
	return cmd
}

// untilTerminated returns a function that validates the flags and runs the command. SIGTERM or SIGINT cancels the
// context of the command.
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
