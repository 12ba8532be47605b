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

// TestReferenceHasEveryField finds fields that are missing in the generated reference. The generator omits the types
// that its configuration names, so the configuration must not name too many.
func TestReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/config/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no CRD: %v", err)
	}
	for _, file := range files {
		module := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file))))
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			var reference []byte
			// The types that several kinds have are on the last two pages.
			for _, page := range []string{module, "jobs", "tensorboard"} {
				content, err := os.ReadFile("../../docs/api/" + page + ".md")
				if err != nil {
					t.Fatal(err)
				}
				reference = append(reference, content...)
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
				t.Fatalf("found only the fields %q of the spec, want at least 5", fields)
			}
			for _, field := range append(fields, ourFields(schema.Properties["status"])...) {
				if !strings.Contains(string(reference), "| `"+field+"` _") {
					t.Errorf("the reference has no field %s", field)
				}
			}
		})
	}
}

// described are the fields whose inner fields belong to core types, but have descriptions in the CRDs. ourFields
// leaves out these inner fields.
var described = []string{"conditions", "dependent", "reference", "nodeSelector", "namespaceSelector"}

// ourFields returns the names of the fields below a property that belong to the types of this project. A field
// without a description belongs to a core type, because the CRDs omit the descriptions of such fields.
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
