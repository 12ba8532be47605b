// Package run makes the objects of kubectl train run: a job, and the ConfigMap or the claim with its code. It creates
// nothing in the cluster.
package run

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/framework"
)

// Options are the options of kubectl train run. The flags of the same names describe them.
type Options struct {
	// Name and Namespace of the job.
	Name, Namespace string
	// Kind of the job.
	Kind *jobs.Kind
	// Program is the command line of the training: a Python file of the code, or -m and the name of a module, and then
	// the arguments. It has at least one word.
	Program []string
	// Image of the main container.
	Image string
	// Nodes is the number of replicas. 0 means 1, or Elastic.Min in an elastic job.
	Nodes int32
	// Processes is the number of processes of each replica. 0 means one for each GPU, but at most as many as the kind
	// supports. Without GPUs, 0 means 1.
	Processes int32
	// GPUs is the number of GPUs of each replica. GPUResource is the name of their resource, such as nvidia.com/gpu.
	GPUs        int64
	GPUResource string
	// CPUs and Memory of each replica. Nil means that the job requests none.
	CPUs, Memory *resource.Quantity
	// Queue of the scheduler-controller, or LocalQueue of Kueue.
	Queue, LocalQueue string
	// Elastic is the range of the number of replicas. The zero Range means that the job is not elastic.
	Elastic Range
	// TensorBoard is a folder of event files in the container, on one of the Claims.
	TensorBoard string
	// Env are the variables of the main container. EnvFrom are the names of Secrets whose keys also become variables.
	Env     []corev1.EnvVar
	EnvFrom []string
	// Claims are mounted into the main container.
	Claims []Mount
	// Tolerations and NodeSelector decide on which nodes the pods can run. The pods also tolerate taints whose key is
	// GPUResource if they request GPUs.
	Tolerations  []corev1.Toleration
	NodeSelector map[string]string
	// PullSecrets are the names of Secrets with the credentials of the registry of Image.
	PullSecrets []string
	// MaxTime limits how long the job is active. 0 means no limit.
	MaxTime time.Duration
	// Retries is the maximum number of restarts after failures of the program.
	Retries int32
	// Paused is set if the job is created paused. A job whose code must be uploaded is always created paused.
	Paused bool
	// Progress is set if the pods get the sidecar that receives reports of the progress.
	Progress bool
	// User is the ID of the user that the containers run as. Nil means the user of the image.
	User *int64
	// VolumeGroup is the group that owns the files of claims. Nil means that the pods set no group.
	VolumeGroup *int64
	// CodeClaim is an existing claim for code that is too large for a ConfigMap. If CodeClaim is empty, such code is in
	// a new claim of the class StorageClass. If StorageClass is empty, too, the cluster chooses the class.
	CodeClaim, StorageClass string
}

// Range is a range of the number of replicas. Min is at least 1, except in the zero Range.
type Range struct{ Min, Max int32 }

// ParseRange parses a range such as 2:8.
func ParseRange(text string) (Range, error) {
	least, most, ok := strings.Cut(text, ":")
	low, errLow := strconv.ParseInt(least, 10, 32)
	high, errHigh := strconv.ParseInt(most, 10, 32)
	if !ok || errLow != nil || errHigh != nil || low < 1 || high < low {
		return Range{}, fmt.Errorf("%q is no range of numbers of nodes, such as 2:8", text)
	}
	return Range{Min: int32(low), Max: int32(high)}, nil
}

// Mount is a claim and the path where it is mounted.
type Mount struct {
	Claim, Path string
	ReadOnly    bool
}

// CodePath is the folder of the code in the containers.
const CodePath = "/code"

// ParseMount parses a claim to mount: NAME[:PATH[:ro]].
func ParseMount(text string) (Mount, error) {
	parts := strings.Split(text, ":")
	mount := Mount{Claim: parts[0], Path: "/mnt/" + parts[0], ReadOnly: len(parts) > 2}
	if len(parts) > 1 {
		mount.Path = path.Clean(parts[1])
	}
	switch {
	case len(parts) > 3, len(parts) == 3 && parts[2] != "ro":
		return Mount{}, fmt.Errorf("%q is not of the form NAME[:PATH[:ro]], such as data:/data:ro", text)
	case len(validation.IsDNS1123Subdomain(mount.Claim)) > 0:
		return Mount{}, fmt.Errorf("%q in %q is no name of a PersistentVolumeClaim", mount.Claim, text)
	case !path.IsAbs(mount.Path) || mount.Path == "/":
		return Mount{}, fmt.Errorf("%q in %q is no absolute path of a folder", mount.Path, text)
	case mount.Path == CodePath || strings.HasPrefix(mount.Path, CodePath+"/"):
		return Mount{}, fmt.Errorf("%s is the folder of the code: mount the claim %s elsewhere", CodePath, mount.Claim)
	}
	return mount, nil
}

// ParseEnv parses a variable NAME=VALUE.
func ParseEnv(text string) (corev1.EnvVar, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || len(validation.IsEnvVarName(name)) > 0 {
		return corev1.EnvVar{}, fmt.Errorf("%q is not of the form NAME=VALUE", text)
	}
	return corev1.EnvVar{Name: name, Value: value}, nil
}

// ParseToleration parses a toleration in the notation of kubectl taint: KEY[=VALUE][:EFFECT]. Without a value, the
// toleration is for any value of the taint. Without an effect, it is for all effects.
func ParseToleration(text string) (corev1.Toleration, error) {
	taint, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(taint, "=")
	toleration := corev1.Toleration{
		Key: key, Operator: corev1.TolerationOpExists, Value: value, Effect: corev1.TaintEffect(effect),
	}
	if hasValue {
		toleration.Operator = corev1.TolerationOpEqual
	}
	effects := []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	}
	if len(validation.IsQualifiedName(key)) > 0 || hasValue && len(validation.IsValidLabelValue(value)) > 0 ||
		hasEffect && !slices.Contains(effects, toleration.Effect) {
		return toleration, fmt.Errorf("%q is not of the form KEY[=VALUE][:EFFECT], such as team=vision:NoSchedule", text)
	}
	return toleration, nil
}

// ParseLabel parses the label KEY=VALUE of a node.
func ParseLabel(text string) (key, value string, err error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return "", "", fmt.Errorf("%q is not of the form KEY=VALUE, such as zone=a", text)
	}
	return key, value, nil
}

// NameFor returns a name for a job: the name of the folder with its code, and a suffix.
func NameFor(folder, suffix string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(folder) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			name.WriteRune(r)
		default:
			name.WriteByte('-')
		}
	}
	base := strings.Trim(name.String(), "-")
	if base == "" || base[0] < 'a' { // the name of a Service begins with a letter
		base = strings.TrimSuffix("train-"+base, "-")
	}
	const limit = 40 // the name of a pod is this name, a type and an index, and has at most 63 characters
	return strings.TrimRight(base[:min(len(base), limit)], "-") + "-" + suffix
}

// validate checks the options without the code. It returns all problems. Each message names the flag.
func (o *Options) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(validation.IsDNS1035Label(o.Name)) > 0 {
		add("--name is %q, but a name has at most 63 lower case letters, digits and '-', and begins with a letter", o.Name)
	}
	if o.Image == "" {
		add("--image is required: an image with Python and the packages of the training. " +
			"To have a default, set the variable KUBECTL_TRAIN_IMAGE")
	}
	for _, number := range []struct {
		flag  string
		value int64
	}{
		{"--nodes", int64(o.Nodes)},
		{"--procs", int64(o.Processes)},
		{"--gpus", o.GPUs},
		{"--retries", int64(o.Retries)},
		{"--max-time", int64(o.MaxTime)},
	} {
		if number.value < 0 {
			add("%s is negative", number.flag)
		}
	}
	if o.MaxTime > 0 && o.MaxTime < time.Second {
		add("--max-time is less than a second")
	}
	if o.Elastic.Max > 0 && o.Nodes != 0 && (o.Nodes < o.Elastic.Min || o.Nodes > o.Elastic.Max) {
		add("--nodes is %d, which is not in the range %d:%d of --elastic", o.Nodes, o.Elastic.Min, o.Elastic.Max)
	}
	if o.Queue != "" && o.LocalQueue != "" {
		add("--queue and --local-queue exclude each other: the first is a Queue of the scheduler-controller, " +
			"the second a LocalQueue of Kueue")
	}
	for _, name := range o.PullSecrets {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			add("--image-pull-secret: %q is no name of a Secret", name)
		}
	}
	paths := map[string]bool{}
	for _, claim := range o.Claims {
		if paths[claim.Path] {
			add("--claim has the path %s twice", claim.Path)
		}
		paths[claim.Path] = true
	}
	o.checkKind(add)
	if o.TensorBoard != "" {
		if _, err := o.fileset(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkKind adds an error for each option that jobs of the kind do not support.
func (o *Options) checkKind(add func(format string, args ...any)) {
	trainings := o.Kind.Trainings
	if trainings == nil {
		add("--kind: kubectl train run cannot make a %s: create the job with kubectl apply", o.Kind.Kind)
		return
	}
	if o.Elastic.Max > 0 && !trainings.CanScale {
		add("--elastic: a %s does not scale", o.Kind.Kind)
	}
	switch most := trainings.MaxProcesses; {
	case o.Processes > most && most == 1:
		add("--procs: each replica of a %s is one process, which uses all GPUs of its node", o.Kind.Kind)
	case o.Processes > most:
		add("--procs: a replica of a %s can have at most %d processes", o.Kind.Kind, most)
	}
	if _, canShow := o.Kind.New().(framework.TensorBoardJob); o.TensorBoard != "" && !canShow {
		add("--tensorboard: a %s has no TensorBoard: create a TensorBoard object yourself, "+
			"as in examples/tensorboard/claim.yaml", o.Kind.Kind)
	}
}

// checkProgram returns an error if the program is not valid, or if its file is not one of the files of the code.
func (o *Options) checkProgram(files []code.File) error {
	program := o.Program[0]
	isProgram := func(file code.File) bool { return file.Path == path.Clean(program) }
	switch {
	case program == "-m" && len(o.Program) == 1:
		return errors.New("-m needs the name of a module, as in: kubectl train run DIR -- -m digits.train")
	case program == "-m":
		return nil
	case path.Ext(program) != ".py":
		return fmt.Errorf("%q is no Python program: name a file that ends with .py, or a module, as in -m digits.train",
			program)
	case !slices.ContainsFunc(files, isProgram):
		return fmt.Errorf("the folder has no file %q, or its ignore files name it", program)
	}
	return nil
}

// isModule reports whether the program is a module.
func (o *Options) isModule() bool { return o.Program[0] == "-m" }

// commandLine returns the program with its path in the container, and its arguments.
func (o *Options) commandLine() []string {
	words := slices.Clone(o.Program)
	if !o.isModule() {
		words[0] = path.Join(CodePath, words[0])
	}
	for i, word := range words {
		words[i] = literal(word)
	}
	return words
}

// literal escapes a word so that the program gets the word unchanged. In the command and the args of a container, the
// kubelet replaces $(NAME) with the value of a variable, and $$ with $.
func literal(word string) string {
	if strings.Contains(word, "$(") || strings.Contains(word, "$$") {
		return strings.ReplaceAll(word, "$", "$$")
	}
	return word
}

// fileset returns the URL of the folder of event files. It returns an error if the folder is on none of the claims.
func (o *Options) fileset() (string, error) {
	folder := path.Clean(o.TensorBoard)
	for _, claim := range o.Claims {
		if folder == claim.Path {
			return "t9k://pvc/" + claim.Claim, nil
		}
		if below, ok := strings.CutPrefix(folder, claim.Path+"/"); ok {
			return "t9k://pvc/" + claim.Claim + "/" + below, nil
		}
	}
	return "", fmt.Errorf("--tensorboard %s is on no claim, so a TensorBoard cannot read it: mount one, "+
		"as in --claim logs:/logs --tensorboard /logs/runs", o.TensorBoard)
}
