package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/run"
)

// imageVariable is the environment variable with the default of --image.
const imageVariable = "KUBECTL_TRAIN_IMAGE"

func newRun(e *environment) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run DIR [flags] -- PROGRAM [ARGS...]",
		Short: "Train with the code of a folder, without building an image",
		Long: `Train with the code of a folder, without building an image.

The command creates a job whose pods have the folder at /code, read-only, as their working directory. PROGRAM is a Python
file of the folder, or -m and a module. ARGS are its arguments. Then the command prints the log of the leader until the job
ends. Messages go to stderr, and the log goes to stdout.

Code: the folder without the files that .gitignore and .trainignore name. Both have the syntax of .gitignore, and
.trainignore has priority. Files that probably have credentials, such as .env and private keys, are left out: everybody who
may read the namespace can read the code. Put them into a Secret, and use --env-from. Small code goes into a ConfigMap.
Code with more than 900 KiB or 1000 files goes into a PersistentVolumeClaim, so the cluster must have storage. With several
nodes, the storage must support ReadWriteMany. The ConfigMap or claim is deleted with the job.

Results: /code is read-only, and everything else in a container is lost with its pod. Write results to a claim (--claim).

Processes: a PyTorchTrainingJob with several nodes or processes starts them with torchrun, and a DeepSpeedJob with the
launcher of DeepSpeed. TensorFlow has one process on each node.

Image: it must have Python and the packages of the training. The pods meet the Pod Security Standard "restricted", so an
image that runs as root needs --run-as-user.

Ctrl-C asks whether to leave the job alone (detach), to pause it or to delete it. While the code is uploaded, Ctrl-C deletes
everything that the command has created. If the command is killed in that time, a paused job is left. kubectl train list
shows it, and kubectl train delete deletes it with its code.

The exit code is 0 if the job has succeeded, 1 if the command has failed, 2 if the job has failed, and 130 if a signal ended
the command.`,
		Example: `  # Train with one process, with the image of the variable KUBECTL_TRAIN_IMAGE
  kubectl train run . -- train.py --epochs=5

  # Train on 2 nodes with 4 GPUs and 4 processes each, in a queue, and keep the checkpoints on a claim
  kubectl train run ./digits --image=example.com/torch:2.6 --nodes=2 --gpus=4 --queue=research \
    --claim=checkpoints:/ckpt -- train.py --checkpoint=/ckpt/model.pt

  # Use a public image that runs as root
  kubectl train run . --image=pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime --run-as-user=1000 -- train.py

  # Train elastically with 2 to 8 nodes, and show the event files in a TensorBoard
  kubectl train run . --elastic=2:8 --claim=logs:/logs --tensorboard=/logs/runs -- train.py --logdir=/logs/runs

  # Train a module with DeepSpeed, in the background
  kubectl train run . --kind=deepspeed --procs=2 --detach -- -m digits.train

  # Write the objects into a file instead of creating them
  kubectl train run . --dry-run=client -o yaml -- train.py > job.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 1 || len(args) < 2 {
				return errors.New("name a folder, and after -- a program of this folder, as in: " +
					"kubectl train run . -- train.py")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			if cmd.ArgsLenAtDash() >= 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, f, args[0], args[1:]) },
	}
	f.add(cmd)
	return cmd
}

// runFlags are the flags of kubectl train run.
type runFlags struct {
	run.Options

	kind, elastic, cpus, memory string
	env, claims                 []string
	user                        int64
	dryRun, output              string
	detach                      bool
}

// add adds the flags to the command.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Name, "name", "", "name of the job (default: the name of the folder and a random suffix)")
	flags.StringVar(&f.kind, "kind", "pytorch",
		"framework: pytorch, tensorflow or deepspeed; or the kind of the job, such as ptjob")
	flags.StringVar(&f.Image, "image", os.Getenv(imageVariable),
		"image with Python and the packages of the training (default: the variable "+imageVariable+")")
	flags.Int32Var(&f.Nodes, "nodes", 0,
		"number of replicas, each with its own pod (default: 1, or the minimum of --elastic)")
	flags.Int32Var(&f.Processes, "procs", 0, "number of processes of each replica (default: one for each GPU, or 1)")
	flags.StringVar(&f.elastic, "elastic", "", "train with any number of replicas in this range, such as 2:8")
	flags.Int64Var(&f.GPUs, "gpus", 0, "number of GPUs of each replica")
	flags.StringVar(&f.GPUResource, "gpu-resource", "nvidia.com/gpu", "name of the resource of the GPUs")
	flags.StringVar(&f.cpus, "cpus", "", "CPUs that each replica requests, such as 8")
	flags.StringVar(&f.memory, "memory", "", "memory that each replica requests, which is also its limit, such as 32Gi")
	flags.StringVar(&f.Queue, "queue", "", "Queue of the scheduler-controller that the job is scheduled from")
	flags.StringVar(&f.LocalQueue, "local-queue", "", "LocalQueue of Kueue that admits the job")
	flags.StringArrayVar(&f.claims, "claim", nil,
		"PersistentVolumeClaim to mount, as NAME[:PATH[:ro]] (PATH defaults to /mnt/NAME); can be repeated")
	flags.StringVar(&f.TensorBoard, "tensorboard", "",
		"folder of event files to show in a TensorBoard, on a claim of --claim")
	flags.StringArrayVar(&f.env, "env", nil, "variable of the environment, as NAME=VALUE; can be repeated")
	flags.StringArrayVar(&f.EnvFrom, "env-from", nil, "Secret whose keys become variables; can be repeated")
	flags.DurationVar(&f.MaxTime, "max-time", 0,
		"how long the job can be active before it fails, such as 12h; time in a queue counts")
	flags.Int32Var(&f.Retries, "retries", 0, "how often the job restarts after a failure; disruptions do not count")
	flags.BoolVar(&f.Progress, "progress", true,
		"add the sidecar that receives the progress of the training (100m CPU, 64Mi memory)")
	flags.Int64Var(&f.user, "run-as-user", 0,
		"user ID that the containers run as, other than 0 (default: the user of the image)")
	flags.StringVar(&f.CodeClaim, "code-claim", "",
		"existing claim for code that is too large for a ConfigMap; it stays there, in the folder kubectl-train/<name>")
	flags.StringVar(&f.StorageClass, "storage-class", "",
		"storage class of a new claim for the code (default: the default of the cluster)")
	flags.BoolVarP(&f.detach, "detach", "d", false, "return when the job is created, without waiting for its end")
	addDryRun(cmd, &f.dryRun)
	flags.StringVarP(&f.output, "output", "o", "", "print the objects as yaml, json or name; needs --dry-run or --detach")
	complete := func(flag string, values ...string) {
		// The error means that there is no such flag, which a test would find.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("kind", frameworkNames...)
	complete("output", "yaml", "json", "name")
}

// options returns the options that the flags set.
func (f *runFlags) options(cmd *cobra.Command) (run.Options, error) {
	options := f.Options
	var errs []error
	check := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	options.Kind = kindOfFramework(f.kind)
	if options.Kind == nil {
		check("kind", fmt.Errorf("%q is no job kind: use %s, or a kind such as ptjob",
			f.kind, strings.Join(frameworkNames, ", ")))
	}
	var err error
	if f.elastic != "" {
		options.Elastic, err = run.ParseRange(f.elastic)
		check("elastic", err)
	}
	options.CPUs, err = quantity(f.cpus)
	check("cpus", err)
	options.Memory, err = quantity(f.memory)
	check("memory", err)
	for _, text := range f.claims {
		mount, err := run.ParseMount(text)
		check("claim", err)
		options.Claims = append(options.Claims, mount)
	}
	for _, text := range f.env {
		variable, err := run.ParseEnv(text)
		check("env", err)
		options.Env = append(options.Env, variable)
	}
	if cmd.Flags().Changed("run-as-user") {
		options.User = &f.user
		if f.user <= 0 {
			check("run-as-user", fmt.Errorf("%d is not allowed: pods of kubectl train do not run as root", f.user))
		}
	}
	if _, err := dryRunNote(f.dryRun); err != nil {
		errs = append(errs, err)
	}
	if !slices.Contains([]string{"", "yaml", "json", "name"}, f.output) {
		check("output", fmt.Errorf("%q is not yaml, json or name", f.output))
	}
	if f.output != "" && f.dryRun == dryRunNone && !f.detach {
		check("output", errors.New("the log of the training goes to stdout: add --dry-run=client or --detach"))
	}
	return options, errors.Join(errs...)
}

// quantity parses a quantity. An empty text gives nil.
func quantity(text string) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no quantity
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return nil, fmt.Errorf("%q is no quantity, such as 4, 500m or 16Gi", text)
	}
	return &q, nil
}

// frameworkNames are the names of the frameworks, in the order of jobs.Kinds.
var frameworkNames = []string{"pytorch", "tensorflow", "deepspeed"}

// kindOfFramework returns the kind of the jobs of a framework, or the kind with the given name, or nil.
func kindOfFramework(name string) *jobs.Kind {
	if i := slices.Index(frameworkNames, strings.ToLower(name)); i >= 0 {
		return jobs.Kinds[i]
	}
	return jobs.KindNamed(name)
}

// run runs the command.
func (e *environment) run(cmd *cobra.Command, f *runFlags, dir string, program []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	options.Program = program
	folder, err := code.Read(dir)
	if err != nil {
		return err
	}
	options.Name = cmp.Or(options.Name, run.NameFor(filepath.Base(folder.Path), rand.String(5)))
	s := newConsole(e.Out, e.ErrOut)
	reportLeftOut(s, folder)
	packed, err := pack(folder)
	if err != nil {
		return err
	}
	if f.dryRun == dryRunClient {
		// As with kubectl create, the objects have only a namespace that the user has named.
		namespace, isExplicit, err := e.flags.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		if isExplicit {
			options.Namespace = namespace
		}
		objects, err := run.New(options, packed)
		if err != nil {
			return err
		}
		objects.SetPaused(objects.Upload != nil)
		return e.printManifest(objects, folder, f.output)
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	if err := options.Kind.CheckServed(c.RESTMapper()); err != nil {
		return err
	}
	options.Namespace = c.namespace
	objects, err := run.New(options, packed)
	if err != nil {
		return err
	}
	objects.Job.Flags = c.flags
	if f.dryRun == dryRunServer {
		objects.SetPaused(objects.Upload != nil)
		if err := checkObjects(cmd.Context(), c, objects); err != nil {
			return err
		}
		return e.printManifest(objects, folder, f.output)
	}
	p := &preparation{cluster: c, screen: s, objects: objects, folder: folder, codeClaim: options.CodeClaim}
	if err := p.run(cmd.Context()); err != nil {
		return err
	}
	if f.detach && f.output != "" {
		objects.Upload = nil // the pod is deleted
		return e.printRunObjects(objects, f.output)
	}
	if f.detach {
		s.message("%s", goesOn(objects.Job))
		return nil
	}
	return e.follow(cmd.Context(), c, s, objects.Job)
}

// reportLeftOut prints the files that are left out without an ignore file that names them.
func reportLeftOut(s *console, folder *code.Folder) {
	hasSecrets := false
	for _, left := range folder.LeftOut {
		s.message("%s is left out: it %s", left.Path, left.Reason)
		hasSecrets = hasSecrets || left.IsSecret
	}
	if hasSecrets {
		s.message("To give credentials to the training: kubectl create secret generic NAME --from-env-file=FILE, " +
			"and then kubectl train run --env-from=NAME")
	}
}

// pack returns the code of a folder. It has the contents of the files if they fit into a ConfigMap.
func pack(folder *code.Folder) (run.Code, error) {
	digest, err := folder.Digest()
	if err != nil {
		return run.Code{}, err
	}
	packed := run.Code{Files: folder.Files, Digest: digest}
	if !run.IsSmall(folder.Files) {
		return packed, nil
	}
	packed.Content = make([][]byte, 0, len(folder.Files))
	for _, file := range folder.Files {
		content, err := folder.Content(file.Path)
		if err != nil {
			return run.Code{}, err
		}
		packed.Content = append(packed.Content, content)
	}
	return packed, nil
}

// durationOf returns how long a job took from its creation to its end.
func durationOf(job jobs.Job) time.Duration {
	end := job.JobStatus().CompletionTime
	if end == nil {
		return 0
	}
	return end.Sub(job.GetCreationTimestamp().Time).Round(time.Second)
}
