package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/stages"
)

// TestEverySpecIsInOneStage checks the labels of the specs. Among the stages that run specs with the newest versions,
// the filter of exactly one stage must match each spec. The filter of each of these stages must match a spec.
func TestEverySpecIsInOneStage(t *testing.T) {
	specs, withSpecs := specsWithStages(t), map[string]bool{}
	list := readStages(t)
	for _, spec := range specs {
		withNewest := slices.DeleteFunc(spec.stages, func(s stages.Stage) bool { return s.E2E == "" })
		if len(withNewest) != 1 {
			t.Errorf("%q is in the stages %v, want exactly one", spec.FullText(), withNewest)
		}
		for _, s := range withNewest {
			withSpecs[s.Name] = true
		}
	}
	for _, s := range list.All() {
		if s.E2E != "" && !withSpecs[s.Name] {
			t.Errorf("no spec matches the filter of stage %s", s.Name)
		}
	}
	if len(specs) < 70 {
		t.Errorf("found %d specs, want at least 70", len(specs))
	}
}

// fileInSpec matches the path of a document, of an example or of test data in a spec.
var fileInSpec = regexp.MustCompile(`[" =]((?:README|[a-z]+/README|docs/[\w./-]+)\.md|examples/[\w./-]+|(?:test/e2e/)?testdata/[\w.-]+)"`)

// TestSpecsRunAfterChangesOfTheirFiles checks the areas of stages.yaml. Each stage that runs a spec must start after a
// change to the file of the spec, and after a change to a document, an example or test data that the file of the spec
// names.
func TestSpecsRunAfterChangesOfTheirFiles(t *testing.T) {
	list := readStages(t)
	filesOf := map[string][]string{} // maps a file with specs to itself and to the files that it names
	for _, spec := range specsWithStages(t) {
		specFile := filepath.Base(spec.FileName())
		files, known := filesOf[specFile]
		if !known {
			content, err := os.ReadFile(specFile)
			if err != nil {
				t.Fatal(err)
			}
			files = []string{"test/e2e/" + specFile}
			for _, match := range fileInSpec.FindAllStringSubmatch(string(content), -1) {
				file := strings.TrimSuffix(match[1], "/")
				if strings.HasPrefix(file, "testdata/") {
					file = "test/e2e/" + file
				}
				if _, err := os.Stat(filepath.Join(root, file)); err == nil { // a file that does not exist is written by the spec
					files = append(files, file)
				}
			}
			filesOf[specFile] = files
		}
		for _, s := range spec.stages {
			for _, file := range files {
				if !list.Tests(s.Name, file) {
					t.Errorf("%s must test %s: add it to an area in stages.yaml", s.Name, file)
				}
			}
		}
	}
}

// specWithStages is a spec, and the stages that run it.
type specWithStages struct {
	types.SpecReport

	stages []stages.Stage
}

// focus matches the label filter in the command of a stage that runs specs with the oldest versions.
var focus = regexp.MustCompile(`E2E_TRAINING=oldest make e2e\s+FOCUS='?([^']+)`)

// specsWithStages returns all specs with the stages that run them.
func specsWithStages(t *testing.T) []specWithStages {
	t.Helper()
	if os.Getenv("E2E") != "" {
		t.Skip("Ginkgo cannot preview the specs in a process that runs them")
	}
	filters := map[stages.Stage]types.LabelFilter{}
	for _, s := range readStages(t).All() {
		text := s.E2E
		if match := focus.FindStringSubmatch(s.Run); match != nil {
			text = match[1]
		}
		if text == "" {
			continue
		}
		filter, err := types.ParseLabelFilter(text)
		if err != nil {
			t.Fatalf("stage %s: %v", s.Name, err)
		}
		filters[s] = filter
	}
	var specs []specWithStages
	for _, spec := range PreviewSpecs("end to end").SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt {
			continue
		}
		found := specWithStages{SpecReport: spec}
		for s, filter := range filters {
			if filter(spec.Labels()) {
				found.stages = append(found.stages, s)
			}
		}
		specs = append(specs, found)
	}
	return specs
}

// readStages returns the stages of the repository.
func readStages(t *testing.T) stages.List {
	t.Helper()
	registry, err := modules.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	list, err := stages.Read("../stages/stages.yaml", registry)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
