package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

// newRoot returns a repository with the files that a new framework requires.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"versions.yaml": "modules:\n  common: {version: v0.1.0, role: library}\n" +
			"  kit: {version: v0.3.0, role: library, common: v0.1.0}\n" +
			"  tensorflow: {version: v0.4.0, role: framework, common: v0.2.0, kit: v0.3.0}\n" +
			"  scheduler: {version: v0.1.0, role: controller, common: v0.2.0}\n" +
			"  cli: {version: v0.1.0, role: client, common: v0.2.0, tensorflow: v0.4.0}\nkubernetes: {}\n",
		"go.work": "go 1.26.0\n\nuse ./tensorflow\n\n" +
			"replace (\n\ttensorstack.dev/jobs/tensorflow v0.4.0 => ./tensorflow\n)\n",
		"cli/go.mod": "module tensorstack.dev/jobs/cli\n\nrequire (\n\ttensorstack.dev/jobs/common v0.2.0\n" +
			"\ttensorstack.dev/jobs/tensorflow v0.4.0\n)\n",
		"tensorflow/go.mod": "module tensorstack.dev/jobs/tensorflow\n",
		"tensorflow/go.sum": "",
		"tensorflow/config/crd/batch.tensorstack.dev_tensorflowtrainingjobs.yaml": "spec:\n  names:\n" +
			"    plural: tensorflowtrainingjobs\n    shortNames: [tfjob]\n    singular: tensorflowtrainingjob\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheNewFrameworkIsRegisteredAfterTheLastFramework(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	if err := (framework{root: root, name: "jax"}).write(); err != nil {
		t.Fatal(err)
	}
	file, err := versions.Read(filepath.Join(root, "versions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"tensorflow", "jax"}, file.Names(versions.Framework)); diff != "" {
		t.Errorf("unexpected frameworks (-want +got):\n%s", diff)
	}
	want := versions.Module{
		Version: "v0.1.0", Role: versions.Framework, Requires: map[string]string{"common": "v0.2.0", "kit": "v0.3.0"},
	}
	if diff := cmp.Diff(want, file.Modules["jax"]); diff != "" {
		t.Errorf("unexpected module (-want +got):\n%s", diff)
	}
}

func TestClientsRequireTheNewFramework(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	if err := (framework{root: root, name: "jax"}).write(); err != nil {
		t.Fatal(err)
	}
	file, err := versions.Read(filepath.Join(root, "versions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"common": "v0.2.0", "tensorflow": "v0.4.0", "jax": "v0.1.0"}
	if diff := cmp.Diff(want, file.Modules["cli"].Requires); diff != "" {
		t.Errorf("unexpected requirements in versions.yaml (-want +got):\n%s", diff)
	}
	for name, line := range map[string]string{
		"cli/go.mod": "\ttensorstack.dev/jobs/jax v0.1.0\n",
		"go.work":    "replace (\n\ttensorstack.dev/jobs/jax v0.1.0 => ./jax\n\ttensorstack.dev/jobs/tensorflow",
	} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), line) {
			t.Errorf("%s does not have the line %q:\n%s", name, line, content)
		}
	}
}

func TestNoNameOfTheTemplateIsLeft(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"": "JaxTrainingJob", "JAXJob": "JAXJob"} {
		root := newRoot(t)
		if err := (framework{root: root, name: "jax", kind: kind}).write(); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if found := strings.ToLower(path + string(content)); strings.Contains(found, "zebra") {
				t.Errorf("%s still contains the name of the template", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		example, err := os.ReadFile(filepath.Join(root, "examples/jax/plain.yaml"))
		if err != nil || !strings.Contains(string(example), "\nkind: "+want+"\n") {
			t.Errorf("the kind of the example is not %s (%v):\n%s", want, err, example)
		}
	}
}

func TestLinesStayShortWithALongKind(t *testing.T) {
	t.Parallel()
	files, err := framework{root: newRoot(t), name: "paddlepaddle", kind: "PaddlePaddleTrainingJob"}.files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		for line := range strings.Lines(string(content)) {
			isMarker := strings.HasPrefix(strings.TrimSpace(line), "// +")
			if strings.HasSuffix(name, ".go") && len(strings.TrimSuffix(line, "\n")) > 120 && !isMarker {
				t.Errorf("a line of %s has more than 120 characters:\n%s", name, line)
			}
		}
	}
}

func TestNewFrameworkRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		framework framework
		want      string
	}{
		"no name":                    {framework{}, `NAME is ""`},
		"a name with a dash":         {framework{name: "my-jax"}, `NAME is "my-jax"`},
		"a keyword":                  {framework{name: "func"}, `NAME is "func"`},
		"a type of Go":               {framework{name: "string"}, `NAME is "string"`},
		"a package of the template":  {framework{name: "framework"}, `NAME is "framework"`},
		"a kind that exists":         {framework{name: "jax", kind: "TensorFlowTrainingJob"}, "trainingjob: choose another"},
		"a short name that exists":   {framework{name: "tf"}, "uses the name tfjob"},
		"a kind in lower case":       {framework{name: "jax", kind: "jaxjob"}, `KIND is "jaxjob"`},
		"the name of another module": {framework{name: "tensorflow"}, "the folder tensorflow already exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.framework.root = newRoot(t)
			if err := tc.framework.write(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}
