package e2e

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/stages"
)

// TestEverySpecIsInOneStage checks the labels of the specs. Each spec must match the filter of exactly one stage.
func TestEverySpecIsInOneStage(t *testing.T) {
	if os.Getenv("E2E") != "" {
		t.Skip("Ginkgo cannot preview the specs in a process that runs them")
	}
	list, err := stages.Read("../stages/stages.yaml", modules.File{}) // stages for modules run no specs
	if err != nil {
		t.Fatal(err)
	}
	filters := map[string]types.LabelFilter{}
	for _, stage := range list.All() {
		if stage.E2E == "" {
			continue
		}
		if filters[stage.Name], err = types.ParseLabelFilter(stage.E2E); err != nil {
			t.Fatalf("stage %s: %v", stage.Name, err)
		}
	}
	specs := 0
	for _, spec := range PreviewSpecs("end to end").SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt {
			continue
		}
		specs++
		var in []string
		for name, filter := range filters {
			if filter(spec.Labels()) {
				in = append(in, name)
			}
		}
		if len(in) != 1 {
			t.Errorf("%q is in the stages %q, want exactly one", spec.FullText(), in)
		}
	}
	if specs < 70 {
		t.Errorf("found %d specs, want at least 70", specs)
	}
}
