// Package hostile checks what a controller makes of jobs that nobody in their right mind writes: whatever the CRD
// admits, the controller can read, makes valid pods of, the same every time, or says why not.
//
// A framework fuzzes itself with Fuzz. With the other functions an integration test asks a real API server whether it
// agrees.
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

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/model"
)

// many is a number of replicas from which on more of them are only more of the same.
const many = 100

// Fuzz checks a controller with the jobs of the manifests and what fuzzing makes of them. The function checks what the
// framework owes the pods of a job.
//
// An input is a job and how to distort it: text that a fuzzer changes byte by byte hardly ever stays a job, while that
// which it has learnt from the schema does.
func Fuzz[J framework.Job](
	f *testing.F, controller manager.Controller[J], crdFile string, manifests []map[string]any, check func(Begun[J]) error,
) {
	crd, err := ReadCRD(crdFile)
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
			t.Skip("no object")
		}
		inNamespace(object, "ns")
		crd.Distort(rand.New(rand.NewPCG(seed, 0)), object, int(times%8)) //nolint:gosec // it is to be repeatable
		if err := crd.Admit(t.Context(), object); err != nil {
			t.Skip(err)
		}
		job, err := Typed(controller, object)
		if err != nil {
			t.Fatal(err)
		}
		if model.CountReplicas(controller.Framework.JobSpec(job)) >= many {
			t.Skip("more of the same")
		}
		for _, job := range []J{job, resumed(controller, job)} {
			begun := begin(t, controller, job)
			if err := errors.Join(Broken(t.Context(), crd, begun), check(begun)); err != nil {
				t.Error(err)
			}
		}
	})
}

// begin returns what a job begins with, if that is the same twice.
func begin[J framework.Job](t *testing.T, controller manager.Controller[J], job J) Begun[J] {
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
		t.Errorf("the job begins differently the second time (-first +second):\n%s", gocmp.Diff(twice[0], twice[1]))
	}
	return twice[0]
}

// forgetOrder drops what depends on the order in which pods were created, which is in parallel.
func (b Begun[J]) forgetOrder() {
	for i := range b.Pods {
		b.Pods[i].UID, b.Pods[i].ResourceVersion = "", ""
	}
	for _, task := range b.Job.JobStatus().Tasks {
		for i := range task.Replicas {
			task.Replicas[i].UID = ""
		}
	}
}

// inNamespace puts a job into a namespace.
func inNamespace(object map[string]any, namespace string) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata["namespace"] = namespace
	}
}

// Typed reads a job that was admitted as the controller does. It returns an error if it cannot.
func Typed[J framework.Job](controller manager.Controller[J], object map[string]any) (J, error) {
	job := controller.Framework.NewJob()
	document, err := json.Marshal(object)
	if err != nil {
		return job, err
	}
	if err := json.Unmarshal(document, job); err != nil {
		return job, fmt.Errorf("a job is admitted that the controller cannot read, so that it can read no job any more: %w",
			err)
	}
	return job, nil
}

// decode reads JSON as the API server does, which tells integers from other numbers.
func decode(document []byte, object *map[string]any) error {
	return utiljson.Unmarshal(document, object)
}

// Manifests reads the objects of a kind from the YAML files that the patterns match. It returns an error if there is
// none.
func Manifests(kind string, patterns ...string) ([]map[string]any, error) {
	var found []map[string]any
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s matches no file", pattern)
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
		return nil, fmt.Errorf("no %s in %q", kind, patterns)
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
