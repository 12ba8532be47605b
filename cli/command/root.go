// Package command defines the commands of kubectl train. Each command has a file.
package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// New returns the command kubectl train with the streams that it reads from and writes to.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	e := &environment{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:   "kubectl-train",
		Short: "Train models on Kubernetes",
		Long: "Train models on Kubernetes: run, watch and understand the jobs of the kinds\n" + jobs.Described() + `.

A job is given by its name. If jobs of several kinds have the same name, add the kind: ptjob/digits.
Every object that kubectl train creates is a plain object, which kubectl shows, changes and deletes.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl train"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	e.flags.AddFlags(root.PersistentFlags())
	// Hide the subcommand "completion": its scripts complete the command kubectl-train, which nobody types. The script
	// kubectl_complete-train completes kubectl train.
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddCommand(
		newRun(e), newList(e), newWatch(e), newLogs(e), newWhy(e),
		newPause(e), newResume(e), newScale(e), newDebug(e), newBoard(e), newDelete(e),
		newPlan(e), newConvert(e), newDocs(e), newVersion(e),
	)
	addVerbosity(root)
	e.addCompletions(root)
	e.explainErrors(root)
	return root
}

// environment has the streams of a command, and the flags of kubectl that select the cluster and the user.
type environment struct {
	genericiooptions.IOStreams

	flags *genericclioptions.ConfigFlags
}

// cluster is a client of the cluster that a command works on. It has the rights of the user.
type cluster struct {
	client.WithWatch

	config *rest.Config
	// core is for subresources of pods, such as log and exec.
	core corev1client.CoreV1Interface
	// namespace is the namespace of the flag --namespace, or of the context of the kubeconfig.
	namespace string
	// The field flags has the flags by which the user has selected the cluster and the namespace. The field clusterFlags
	// has only the flags for the cluster.
	flags, clusterFlags string
}

// connect returns the cluster. It does not send a request.
func (e *environment) connect() (*cluster, error) {
	silenceLibraries()
	config, err := e.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	// A command can send a request for each of hundreds of replicas. By default, client-go allows 5 requests per second.
	config.QPS, config.Burst = 50, 300
	config.WarningHandler = rest.NewWarningWriter(e.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	namespace, _, err := e.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	scheme, err := jobs.Scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := e.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ofCluster, all := e.typedFlags()
	return &cluster{
		WithWatch: c, config: config, core: core, namespace: namespace, flags: all, clusterFlags: ofCluster,
	}, nil
}

// connectTo returns the cluster, and the job with the given name in the namespace of the user. The name can have the
// kind as a prefix, as in ptjob/digits.
func (e *environment) connectTo(ctx context.Context, name string) (*cluster, jobs.Job, error) {
	c, err := e.connect()
	if err != nil {
		return nil, jobs.Job{}, err
	}
	job, err := c.find(ctx, name)
	return c, job, err
}

// find returns the job with the given name in the namespace of the user. The name can have the kind as a prefix, as
// in ptjob/digits.
func (c *cluster) find(ctx context.Context, name string) (jobs.Job, error) {
	job, err := jobs.Find(ctx, c, c.namespace, name)
	job.Flags = c.flags
	return job, err
}

// failure is an error with an exit code of its own.
type failure struct {
	error

	code int
}

func (f failure) Unwrap() error { return f.error }

// The exit codes of kubectl train.
const (
	// exitError means that the command has failed.
	exitError = 1
	// exitJobFailed means that the command has worked, and that the job that it waited for has failed.
	exitJobFailed = 2
	// exitInterrupted means that a signal has interrupted the command. A shell reports the same code for a program that
	// SIGINT has ended.
	exitInterrupted = 130
)

// ExitCode returns the exit code of the program for an error of a command.
func ExitCode(err error) int {
	if f, ok := errors.AsType[failure](err); ok {
		return f.code
	}
	return exitError
}
