package convert

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

var update = flag.Bool("update", false, "write the results of the conversions into testdata")

// converted is the suffix of the files with expected results. The manifest a.yaml is next to its result
// a.converted.yaml.
const converted = ".converted.yaml"

// manifests returns the manifests in testdata.
func manifests(t testing.TB) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("testdata", func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, converted) {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("testdata has only the manifests %q", files)
	}
	return files
}

func TestManifestsAreConverted(t *testing.T) {
	t.Parallel()
	for _, file := range manifests(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := Manifest(content, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := YAML(objects)
			golden := strings.TrimSuffix(file, ".yaml") + converted
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("unexpected result of %s; go test ./convert -update writes it (-want +got):\n%s", file, diff)
			}
			isStrict(t, got)
		})
	}
}

// isStrict fails the test if a job in a manifest has a field that its kind does not have.
func isStrict(t *testing.T, manifest []byte) {
	t.Helper()
	kinds := map[string]func() any{
		"PyTorchTrainingJob":    func() any { return &pytorchv1beta1.PyTorchTrainingJob{} },
		"TensorFlowTrainingJob": func() any { return &tensorflowv1beta1.TensorFlowTrainingJob{} },
		"DeepSpeedJob":          func() any { return &deepspeedv1beta1.DeepSpeedJob{} },
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		content, err := yaml.YAMLToJSONStrict(document) // unlike yaml.Unmarshal, this keeps the types of values
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(content, &object); err != nil {
			t.Fatal(err)
		}
		newJob := kinds[object.Kind]
		if newJob == nil {
			continue
		}
		if strict, err := kjson.UnmarshalStrict(content, newJob()); err != nil || len(strict) > 0 {
			t.Errorf("%v, %v in\n%s", err, strict, document)
		}
	}
}
