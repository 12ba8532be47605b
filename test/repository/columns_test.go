package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/test/internal/document"
)

// TestDocumentsShowTheColumnsOfTheKinds compares the headers of kubectl get in the documents with the printer columns
// of the CRDs.
func TestDocumentsShowTheColumnsOfTheKinds(t *testing.T) {
	t.Parallel()
	kinds := map[string][]apiextensionsv1.CustomResourceColumnDefinition{} // the keys are the names that users can type
	for _, crd := range definitions(t) {
		names := crd.Spec.Names
		for _, name := range append(names.ShortNames, names.Plural, names.Singular, crd.Name) {
			kinds[name] = crd.Spec.Versions[0].AdditionalPrinterColumns
		}
	}
	compared := 0
	for _, file := range documents(t) {
		steps, err := document.All(filepath.Join(root, file))
		if err != nil {
			t.Error(err)
		}
		for _, s := range steps {
			words := strings.Fields(s.Command)
			if len(words) < 3 || words[0] != "kubectl" || words[1] != "get" || len(s.Prints) == 0 {
				continue
			}
			columns, isOurs := kinds[words[2]]
			if !isOurs || !strings.HasPrefix(s.Prints[0], "NAME ") {
				continue
			}
			header := []string{"NAME"}
			for _, column := range columns {
				if column.Priority == 0 || slices.Contains(words, "wide") {
					header = append(header, strings.ToUpper(column.Name))
				}
			}
			s.Prints = s.Prints[:1]
			if err := s.Compare(strings.Join(header, " "), nil); err != nil {
				t.Errorf("%s, command %q: %v", file, s.Command, err)
			}
			compared++
		}
	}
	if compared < 6 {
		t.Errorf("%d commands were compared, want at least 6", compared)
	}
}

// definitions returns the CRDs of all controllers.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(root, "*/config/crd/*tensorstack.dev_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crds := make([]apiextensionsv1.CustomResourceDefinition, len(manifests))
	for i, manifest := range manifests {
		content, err := os.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &crds[i]); err != nil {
			t.Fatal(err)
		}
	}
	return crds
}
