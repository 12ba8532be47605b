// Package manifests reads the objects that an installation applies, for the tests of the repository and of releases.
package manifests

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// root is the root of the repository, as seen from the packages in the folder test.
const root = "../.."

// Program returns the path of a program in $KUBEBUILDER_ASSETS or in the folder bin.
func Program(t *testing.T, name string) string {
	t.Helper()
	for _, folder := range []string{os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(root, "bin")} {
		if file, err := filepath.Abs(filepath.Join(folder, name)); err == nil && folder != "" {
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	t.Fatalf("%s is missing: run the tests with make, which builds it", name)
	return ""
}

// Kustomized returns the objects that `kubectl apply -k` applies for a folder of the repository.
func Kustomized(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	return Printed(t, Program(t, "kubectl"), "kustomize", filepath.Join(root, folder))
}

// OnTop returns the objects of a kustomization that a user writes on top of a folder of the repository. ROOT in the
// content stands for the path to the repository.
func OnTop(t *testing.T, folder, content string) []unstructured.Unstructured {
	t.Helper()
	own := t.TempDir()
	path, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Rel(own, path); err != nil {
		t.Fatal(err)
	}
	content = strings.ReplaceAll("resources: [ROOT/"+folder+"]\n"+content, "ROOT", path)
	if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Printed(t, Program(t, "kubectl"), "kustomize", own)
}

// Printed returns the objects that a command prints.
func Printed(t *testing.T, command string, args ...string) []unstructured.Unstructured {
	t.Helper()
	manifests, err := exec.CommandContext(t.Context(), command, args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%s %q: %v: %s", filepath.Base(command), args, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s %q: %v", filepath.Base(command), args, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// ID returns kind, namespace and name of an object.
func ID(object unstructured.Unstructured) string {
	return strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, "/")
}

// Without returns the objects that are not of the kind.
func Without(kind string, objects []unstructured.Unstructured) []unstructured.Unstructured {
	var others []unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != kind {
			others = append(others, object)
		}
	}
	return others
}

// Deployment returns the one Deployment of an installation.
func Deployment(t *testing.T, objects []unstructured.Unstructured) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			found = append(found, object.Object)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d Deployments, want 1", len(found))
	}
	return found[0]
}

// Container returns the one container of the Deployment of an installation.
func Container(t *testing.T, objects []unstructured.Unstructured) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(Deployment(t, objects), "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("there are %d containers: %v", len(containers), err)
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		t.Fatalf("the container is %T, want an object", containers[0])
	}
	return container
}

// Same reports an error unless want and got have the same objects, in any order. It shows how each object differs.
func Same(t *testing.T, want, got []unstructured.Unstructured) {
	t.Helper()
	wanted, gotten := byID(t, want), byID(t, got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(gotten))); diff != "" {
		t.Errorf("unexpected objects (-want +got):\n%s", diff)
	}
	for key, object := range wanted {
		// Missing objects are already reported.
		if diff := cmp.Diff(object, gotten[key]); diff != "" && gotten[key] != nil {
			t.Errorf("unexpected %s (-want +got):\n%s", key, diff)
		}
	}
}

// byID maps the ID of each object to the object. It reports an error if two objects have the same ID.
func byID(t *testing.T, objects []unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	named := map[string]map[string]any{}
	for _, object := range objects {
		if named[ID(object)] != nil {
			t.Errorf("there are two objects %s", ID(object))
		}
		named[ID(object)] = object.Object
	}
	return named
}
