package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The reference is generated with types left out by name: it must not leave out too many.
func TestReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/config/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRD is found: %v", err)
	}
	for _, file := range files {
		module := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file))))
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			reference, err := os.ReadFile("../../docs/api/" + module + ".md")
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal(content, &crd); err != nil {
				t.Fatalf("reading %s: %v", file, err)
			}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			fields := ourFields(schema.Properties["spec"])
			if len(fields) < 5 {
				t.Fatalf("the spec has the fields %q: these cannot be all", fields)
			}
			for _, field := range append(fields, ourFields(schema.Properties["status"])...) {
				if !strings.Contains(string(reference), "| `"+field+"` _") {
					t.Errorf("the reference has no field %s", field)
				}
			}
		})
	}
}

// described are the fields of core types that have descriptions inside nevertheless.
var described = []string{"conditions", "dependent", "reference", "nodeSelector", "namespaceSelector"}

// ourFields returns the names of the fields below a property, as deep as they are of our own types: those of embedded
// core types have no description, but for those that are described.
func ourFields(schema apiextensionsv1.JSONSchemaProps) []string {
	var fields []string
	if schema.Items != nil {
		fields = append(fields, ourFields(*schema.Items.Schema)...)
	}
	for name, property := range schema.Properties {
		switch {
		case property.Description == "":
		case slices.Contains(described, name):
			fields = append(fields, name)
		default:
			fields = append(append(fields, name), ourFields(property)...)
		}
	}
	return fields
}
