// Package hostile tests a controller with unusual and malicious jobs. The controller must be able to read every job
// that the CRD admits. For each such job it must either create valid pods, the same ones every time, or report the
// reason why it cannot.
//
// A framework uses Fuzz for its fuzz test. An integration test uses the other functions to compare the results with a
// real API server.
package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/crd"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/model"
)

// many is a number of replicas. Fuzz and Survey do not create the pods of a job with at least this number of
// replicas, because so many pods do not test anything new.
const many = 100

// Fuzz tests a controller with the jobs in the manifests and with variants that the fuzzer creates. The function
// check checks the pods of a job for the properties that the framework guarantees.
//
// An input of the fuzzer has a job, a seed, and a number of changes. Fuzz makes that many changes to the job by
// calling Distort, which follows the schema, so that the result is often valid. If the fuzzer itself changes the text
// of the job byte by byte, the result is hardly ever valid.
func Fuzz[J framework.Job](
	f *testing.F, controller framework.Controller[J], crdFile string, manifests []map[string]any,
	check func(Begun[J]) error,
) {
	definition, err := ReadCRD(crdFile)
	if err != nil {
		f.Fatal(err)
	}
	for i, manifest := range manifests {
		document, err := json.Marshal(manifest)
		if err != nil {
			f.Fatal(err)
		}
		for times := range byte(4) {
			f.Add(document, uint64(i), times)
		}
	}
	f.Fuzz(func(t *testing.T, document []byte, seed uint64, times byte) {
		object := map[string]any{}
		if err := decode(document, &object); err != nil || object == nil {
			t.Skip("the input is not a JSON object")
		}
		inNamespace(object, "ns")
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the input must be repeatable
		Distort(random, definition, object, int(times%8))
		if err := definition.Admit(t.Context(), object); err != nil {
			t.Skip(err)
		}
		job, err := Typed(controller, object)
		if err != nil {
			t.Fatal(err)
		}
		if model.CountReplicas(controller.Framework.JobSpec(job)) >= many {
			t.Skip("the job has so many replicas that it tests nothing new")
		}
		for _, job := range []J{job, resumed(controller, job)} {
			begun := begin(t, controller, job)
			if err := errors.Join(Broken(t.Context(), definition, begun), check(begun)); err != nil {
				t.Error(err)
			}
		}
	})
}

// ReadCRD reads the manifest of a CustomResourceDefinition.
func ReadCRD(file string) (*crd.Definition, error) {
	manifest, err := os.ReadFile(file) //nolint:gosec // the test names the file
	if err != nil {
		return nil, err
	}
	definition, err := crd.Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return definition, nil
}

// begin calls Begin twice for a job, checks that both results are the same, and returns the first.
func begin[J framework.Job](t *testing.T, controller framework.Controller[J], job J) Begun[J] {
	t.Helper()
	var twice [2]Begun[J]
	for i := range twice {
		var err error
		//nolint:forcetypeassert // a copy of a J is a J
		if twice[i], err = Begin(t.Context(), controller, job.DeepCopyObject().(J), nil); err != nil {
			t.Fatal(err)
		}
		twice[i].forgetOrder()
	}
	if !equality.Semantic.DeepEqual(twice[0], twice[1]) {
		t.Errorf("the same job begins differently the second time (-first +second):\n%s", gocmp.Diff(twice[0], twice[1]))
	}
	return twice[0]
}

// forgetOrder removes the fields that depend on the order in which pods were created. This order varies, since the
// controller creates pods in parallel. It also removes the tokens, which are random.
func (b Begun[J]) forgetOrder() {
	for i := range b.Pods {
		b.Pods[i].UID, b.Pods[i].ResourceVersion = "", ""
		delete(b.Pods[i].Annotations, batchv1beta1.AnnotationProgressToken)
	}
	for replica := range b.Job.JobStatus().EachReplica() {
		replica.UID = ""
	}
}

// inNamespace sets the namespace of a job.
func inNamespace(object map[string]any, namespace string) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata["namespace"] = namespace
	}
}

// Typed decodes an admitted job into the Go type of the controller. It returns an error if the job cannot be decoded.
func Typed[J framework.Job](controller framework.Controller[J], object map[string]any) (J, error) {
	job := controller.Framework.NewJob()
	document, err := json.Marshal(object)
	if err != nil {
		return job, err
	}
	if err := json.Unmarshal(document, job); err != nil {
		return job, fmt.Errorf("the CRD admits a job that the controller cannot decode, so the controller can no longer "+
			"list any job: %w", err)
	}
	return job, nil
}

// decode decodes JSON as the API server does: into different Go types for integers and for other numbers.
func decode(document []byte, object *map[string]any) error {
	return utiljson.Unmarshal(document, object)
}

// Manifests reads the objects of a kind from the YAML files that match the patterns. It returns an error if a pattern
// matches no file or if there is no such object.
func Manifests(kind string, patterns ...string) ([]map[string]any, error) {
	var found []map[string]any
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("pattern %s matches no file", pattern)
		}
		for _, file := range files {
			objects, err := objectsIn(file)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			found = append(found, slices.DeleteFunc(objects, func(o map[string]any) bool { return o["kind"] != kind })...)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the files that match %q contain no %s", patterns, kind)
	}
	return found, nil
}

func objectsIn(file string) ([]map[string]any, error) {
	content, err := os.Open(file) //nolint:gosec // the test names the files
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var objects []map[string]any
	for decoder := yaml.NewYAMLOrJSONDecoder(content, 4096); ; {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := decode(raw, &object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
