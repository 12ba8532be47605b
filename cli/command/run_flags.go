package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/run"
)

// imageVariable is the environment variable with the default of --image.
const imageVariable = "KUBECTL_TRAIN_IMAGE"

// runFlags are the flags of kubectl train run.
type runFlags struct {
	run.Options

	kind, elastic, cpus, memory string
	env, claims                 []string
	tolerations, nodeSelector   []string
	user, volumeGroup           int64
	dryRun, output              string
	detach                      bool
}

// noGroup is the value of --volume-group for pods that set no group.
const noGroup = -1

// add adds the flags to the command.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Name, "name", "", "name of the job (default: the name of the folder and a random suffix)")
	flags.StringVar(&f.kind, "kind", "pytorch",
		"framework: "+strings.Join(jobs.Frameworks(), ", ")+"; or the kind of the job, such as ptjob")
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
	flags.StringArrayVar(&f.tolerations, "toleration", nil,
		"taint of nodes that the pods tolerate, as KEY[=VALUE][:EFFECT]; can be repeated; with --gpus, the pods also "+
			"tolerate the taint whose key is the resource of the GPUs")
	flags.StringArrayVar(&f.nodeSelector, "node-selector", nil,
		"label of the nodes that the pods can run on, as KEY=VALUE; can be repeated")
	flags.StringArrayVar(&f.PullSecrets, "image-pull-secret", nil,
		"Secret with the credentials of the registry of the image; can be repeated")
	flags.DurationVar(&f.MaxTime, "max-time", 0,
		"how long the job can be active before it fails, such as 12h; time in a queue counts")
	flags.Int32Var(&f.Retries, "retries", 0, "how often the job restarts after a failure; disruptions do not count")
	flags.BoolVar(&f.Progress, "progress", true,
		"add the sidecar that receives the progress of the training (100m CPU, 64Mi memory)")
	flags.Int64Var(&f.user, "run-as-user", 0,
		"user ID that the containers run as, other than 0 (default: the user of the image)")
	flags.Int64Var(&f.volumeGroup, "volume-group", 65532,
		"group ID that owns the files of claims, so that every user can write them; -1 sets none, so that the namespace "+
			"can choose it, as in OpenShift")
	flags.StringVar(&f.CodeClaim, "code-claim", "",
		"existing claim for code that is too large for a ConfigMap; it stays there, in the folder kubectl-train/<name>")
	flags.StringVar(&f.StorageClass, "storage-class", "",
		"storage class of a new claim for the code (default: the default of the cluster)")
	flags.BoolVarP(&f.detach, "detach", "d", false, "return when the job is created, without waiting for its end")
	addDryRun(cmd, &f.dryRun)
	addEnum(cmd, &f.output, "output", "o", "print the objects as yaml, json or name; needs --dry-run or --detach",
		"yaml", "json", "name")
	_ = cmd.RegisterFlagCompletionFunc("kind",
		cobra.FixedCompletions(jobs.Frameworks(), cobra.ShellCompDirectiveNoFileComp))
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
			f.kind, strings.Join(jobs.Frameworks(), ", ")))
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
	for _, text := range f.tolerations {
		toleration, err := run.ParseToleration(text)
		check("toleration", err)
		options.Tolerations = append(options.Tolerations, toleration)
	}
	options.NodeSelector = map[string]string{}
	for _, text := range f.nodeSelector {
		key, value, err := run.ParseLabel(text)
		check("node-selector", err)
		options.NodeSelector[key] = value
	}
	if cmd.Flags().Changed("run-as-user") {
		options.User = &f.user
		if f.user <= 0 {
			check("run-as-user", fmt.Errorf("%d is not allowed: pods of kubectl train do not run as root", f.user))
		}
	}
	if f.volumeGroup != noGroup {
		options.VolumeGroup = &f.volumeGroup
		if f.volumeGroup < 0 || f.volumeGroup > math.MaxInt32 {
			check("volume-group", fmt.Errorf("%d is no group ID: use -1 for none", f.volumeGroup))
		}
	}
	if f.output != "" && f.dryRun == dryRunNone && !f.detach {
		check("output", errors.New("the log of the training goes to stdout: add --dry-run=client or --detach"))
	}
	return options, errors.Join(errs...)
}

// quantity parses a quantity, which must be positive. It returns nil for an empty text.
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

// kindOfFramework returns the job kind for the name of a framework or of a kind. Nil means that there is no such
// kind.
func kindOfFramework(name string) *jobs.Kind {
	if i := slices.Index(jobs.Frameworks(), strings.ToLower(name)); i >= 0 {
		return jobs.Kinds[i]
	}
	return jobs.KindNamed(name)
}
