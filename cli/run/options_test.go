package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// digits returns options for code with the file train.py. The options are valid unless the change makes them invalid.
func digits(change func(*Options)) Options {
	o := Options{Name: "digits", Kind: jobs.Kinds[0], Program: []string{"train.py"}, Image: "training"}
	change(&o)
	return o
}

// codeWith returns code with files of these names. Each file has one byte.
func codeWith(t *testing.T, names ...string) *code.Folder {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := code.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestNewRejectsOptions(t *testing.T) {
	t.Parallel()
	folder := codeWith(t, "train.py")
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"an image is required", func(o *Options) { o.Image = "" }, "set the variable KUBECTL_TRAIN_IMAGE"},
		{"the job has a Service of the same name", func(o *Options) { o.Name = "1-digits" }, `--name is "1-digits"`},
		{"the number of nodes is negative", func(o *Options) { o.Nodes = -1 }, "--nodes is negative"},
		{"the time is too short", func(o *Options) { o.MaxTime = time.Millisecond }, "--max-time is less than a second"},
		{"the number of nodes is not in the range", func(o *Options) {
			o.Nodes, o.Elastic = 9, Range{2, 8}
		}, "--nodes is 9, which is not in the range 2:8 of --elastic"},
		{"a job has one queue", func(o *Options) {
			o.Queue, o.LocalQueue = "a", "b"
		}, "--queue and --local-queue exclude each other"},
		{"two claims have the same path", func(o *Options) {
			o.Claims = []Mount{{Claim: "a", Path: "/x"}, {Claim: "b", Path: "/x"}}
		}, "--claim has the path /x twice"},
		{"TensorFlow does not scale", func(o *Options) { o.Kind, o.Elastic = jobs.Kinds[1], Range{2, 8} }, "does not scale"},
		{"TensorFlow has one process on a node", func(o *Options) {
			o.Kind, o.Processes = jobs.Kinds[1], 2
		}, "each replica of a TensorFlowTrainingJob is one process"},
		{"the number of processes has a limit", func(o *Options) {
			o.Kind, o.Processes = jobs.Kinds[2], 1025
		}, "--procs: a replica of a DeepSpeedJob can have at most 1024 processes"},
		{"a kind must support programs", func(o *Options) {
			kind := *o.Kind
			kind.Trainings = nil
			o.Kind = &kind
		}, "--kind: kubectl train run cannot make a PyTorchTrainingJob"},
		{"DeepSpeed has no TensorBoard", func(o *Options) {
			o.Kind, o.Claims, o.TensorBoard = jobs.Kinds[2], []Mount{{Claim: "logs", Path: "/logs"}}, "/logs"
		}, "create a TensorBoard object yourself"},
		{"event files must be on a claim", func(o *Options) {
			o.Claims, o.TensorBoard = []Mount{{Claim: "logs", Path: "/logs"}}, "/logs2/runs"
		}, "--claim logs:/logs --tensorboard /logs/runs"},
		{"the program is not in the folder", func(o *Options) { o.Program = []string{"other.py"} }, `has no file "other.py"`},
		{"the program is outside the folder", func(o *Options) { o.Program = []string{"../train.py"} }, `has no file "../train.py"`},
		{"the program is not in Python", func(o *Options) { o.Program = []string{"train.sh"} }, "is no Python program"},
		{"a module has a name", func(o *Options) { o.Program = []string{"-m"} }, "-m needs the name of a module"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(digits(test.change), folder); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestArgumentsReachAModuleUnchanged(t *testing.T) {
	t.Parallel()
	objects, err := New(digits(func(o *Options) {
		o.Kind, o.Program = jobs.Kinds[2], []string{"-m", "digits.train", "--home=$(HOME)"}
	}), codeWith(t, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	job, ok := objects.Job.Job.(*deepspeedv1beta1.DeepSpeedJob)
	if !ok {
		t.Fatalf("the job is a %T", objects.Job.Job)
	}
	if diff := cmp.Diff([]string{"digits.train", "--home=$$(HOME)"}, job.Spec.Config.Run.Module); diff != "" {
		t.Errorf("unexpected module and arguments (-want +got):\n%s", diff)
	}
}

func TestNewNamesAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(digits(func(o *Options) { o.Image, o.Nodes = "", -1 }), codeWith(t, "train.py"))
	for _, flag := range []string{"--image", "--nodes"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("the error %v does not name %s", err, flag)
		}
	}
}

func TestParseRange(t *testing.T) {
	t.Parallel()
	got, err := ParseRange("2:8")
	if diff := cmp.Diff(Range{Min: 2, Max: 8}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"", "2", "8:2", "0:2", "a:b", "2:8:9", "2:3000000000"} {
		if got, err := ParseRange(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestParseMount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Mount{
		"logs":           {Claim: "logs", Path: "/mnt/logs"},
		"logs:/a/b/":     {Claim: "logs", Path: "/a/b"},
		"data:/data:ro":  {Claim: "data", Path: "/data", ReadOnly: true},
		"data:/code2:ro": {Claim: "data", Path: "/code2", ReadOnly: true},
	} {
		got, err := ParseMount(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"":             "is no name of a PersistentVolumeClaim",
		"Logs":         "is no name of a PersistentVolumeClaim",
		"logs:a":       "is no absolute path",
		"logs:/":       "is no absolute path",
		"logs:/a:rw":   "is not of the form NAME[:PATH[:ro]]",
		"logs:/a:ro:x": "is not of the form NAME[:PATH[:ro]]",
		"logs:/code":   "/code is the folder of the code",
		"logs:/code/a": "/code is the folder of the code",
	} {
		if _, err := ParseMount(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want one with %q", text, err, want)
		}
	}
}

func TestParseEnv(t *testing.T) {
	t.Parallel()
	if got, err := ParseEnv("A=b=c"); err != nil || got.Name != "A" || got.Value != "b=c" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"A", "=b", "a b=c"} {
		if got, err := ParseEnv(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestParseToleration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]corev1.Toleration{
		"team=vision:NoSchedule": {
			Key: "team", Operator: corev1.TolerationOpEqual, Value: "vision", Effect: corev1.TaintEffectNoSchedule,
		},
		"nvidia.com/gpu:NoExecute": {
			Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		},
		"team=": {Key: "team", Operator: corev1.TolerationOpEqual},
		"spot":  {Key: "spot", Operator: corev1.TolerationOpExists},
	} {
		got, err := ParseToleration(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", ":NoSchedule", "a b", "a=b c", "a:", "a:noschedule", "a=b:NoSchedule:NoSchedule"} {
		if got, err := ParseToleration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestParseLabel(t *testing.T) {
	t.Parallel()
	if key, value, err := ParseLabel("example.com/zone=a"); err != nil || key != "example.com/zone" || value != "a" {
		t.Errorf("got %q, %q, %v", key, value, err)
	}
	for _, text := range []string{"", "a", "=a", "a b=c", "a=b=c", "a=b c"} {
		if key, value, err := ParseLabel(text); err == nil {
			t.Errorf("%q is accepted as %q, %q", text, key, value)
		}
	}
}

func TestNameFor(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string]string{
		"digits":                "digits-x7k2p",
		"My Model_v2.1":         "my-model-v2-1-x7k2p",
		"2024-run":              "train-2024-run-x7k2p",
		"---":                   "train-x7k2p",
		"训练":                    "train-x7k2p",
		strings.Repeat("a", 99): strings.Repeat("a", 40) + "-x7k2p",
	} {
		if got := NameFor(folder, "x7k2p"); got != want {
			t.Errorf("the name for %q is %q, want %q", folder, got, want)
		}
	}
}

func TestKeysOfFilesAreUniqueAndValid(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	var got []string
	deep := strings.Repeat("x/", 200) + "end.py"
	for _, name := range []string{"train.py", "a/b.py", "a__b.py", "a b.py", "ä b.py", "..x", deep} {
		key := keyFor(name, taken)
		taken[key] = true
		got = append(got, key)
	}
	long := strings.ReplaceAll(deep, "/", "__")
	want := []string{"train.py", "a__b.py", "a__b.py-2", "a_b.py", "__b.py", "__x", long[len(long)-maxKey:]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestManyFilesAreMountedInParts(t *testing.T) {
	t.Parallel()
	names := []string{"train.py"}
	for i := range 600 {
		names = append(names, fmt.Sprintf("models/%03d.py", i))
	}
	objects, err := New(digits(func(*Options) {}), codeWith(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	source := objects.Job.Spec().Roles[0].Template.Spec.Volumes[0]
	var sizes []int
	paths := map[string]bool{}
	for _, part := range source.Projected.Sources {
		sizes = append(sizes, len(part.ConfigMap.Items))
		for _, item := range part.ConfigMap.Items {
			if _, ok := objects.ConfigMap.Data[item.Key]; !ok {
				t.Errorf("the ConfigMap has no key %q", item.Key)
			}
			paths[item.Path] = true
		}
	}
	if diff := cmp.Diff([]int{256, 256, 89}, sizes); diff != "" || len(paths) != 601 {
		t.Errorf("%d paths; items of the parts (-want +got):\n%s", len(paths), diff)
	}
}

func TestIsSmall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		files []code.File
		want  bool
	}{
		{"a ConfigMap can have 900 KiB", []code.File{{Size: 800 << 10}, {Size: 100 << 10}}, true},
		{"a ConfigMap cannot have more than 900 KiB", []code.File{{Size: 800 << 10}, {Size: 100<<10 + 1}}, false},
		{"a ConfigMap can have 1000 files", make([]code.File, 1000), true},
		{"a ConfigMap cannot have 1001 files", make([]code.File, 1001), false},
	} {
		if got := isSmall(&code.Folder{Files: test.files}); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
}
