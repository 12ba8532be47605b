package scheduling

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/simulated"
)

const (
	resultsFile  = "../../docs/contribute/scheduling-results.md"
	resultsBegin = "<!-- Start of the results. `make e2e FOCUS=scheduling` writes them. -->\n"
	resultsEnd   = "<!-- End of the results. -->\n"
)

// expectedFailure is the name of a report entry. A case has this entry if it fails on an engine, as expected. The
// value of the entry is the failure.
const expectedFailure = "expected failure"

// This hook of Ginkgo updates the tables of the results after a successful run of the whole suite.
var _ = ReportAfterSuite("results", func(report Report) {
	if !report.SuiteSucceeded || report.PreRunStats.SpecsThatWillRun != report.PreRunStats.TotalSpecs {
		return
	}
	content, err := os.ReadFile(resultsFile)
	Expect(err).NotTo(HaveOccurred())
	before, rest, found := bytes.Cut(content, []byte(resultsBegin))
	Expect(found).To(BeTrue())
	_, after, found := bytes.Cut(rest, []byte(resultsEnd))
	Expect(found).To(BeTrue())
	written := slices.Concat(before, []byte(resultsBegin), []byte(resultTables(report.SpecReports)), []byte(resultsEnd),
		after)
	Expect(os.WriteFile(resultsFile, written, 0o600)).To(Succeed())
})

// resultTables returns a table for each subject, with a row for each case. A row combines the specs of a case, one
// per engine. The function skips specs whose names are not names of engines.
func resultTables(specs types.SpecReports) string {
	type row struct {
		subject, name string
		// definition is the location of the case in the code. The rows are sorted by it, because parallel processes report
		// their cases in any order.
		definition types.CodeLocation
		cells      map[simulated.Kind]string
	}
	var rows []*row
	for _, spec := range specs {
		kind := simulated.Kind(spec.LeafNodeText)
		if len(spec.ContainerHierarchyTexts) != 2 ||
			!slices.Contains([]simulated.Kind{simulated.Native, simulated.Volcano, simulated.Plain}, kind) {
			continue
		}
		subject, name := spec.ContainerHierarchyTexts[0], spec.ContainerHierarchyTexts[1]
		i := slices.IndexFunc(rows, func(r *row) bool { return r.subject == subject && r.name == name })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{subject, name, spec.ContainerHierarchyLocations[1], map[simulated.Kind]string{}})
		}
		rows[i].cells[kind] = "yes"
		for _, entry := range spec.ReportEntries {
			if entry.Name == expectedFailure {
				rows[i].cells[kind] = "no: " + entry.StringRepresentation()
			}
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(strings.Compare(a.subject, b.subject), strings.Compare(a.definition.FileName, b.definition.FileName),
			cmp.Compare(a.definition.LineNumber, b.definition.LineNumber))
	})
	var text strings.Builder
	subject := ""
	for _, r := range rows {
		if r.subject != subject {
			subject = r.subject
			fmt.Fprintf(&text,
				"\n**%s**\n\n| | kube-scheduler | Volcano | kube-scheduler without gangs |\n| --- | --- | --- | --- |\n", subject)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", r.name, r.cells[simulated.Native], r.cells[simulated.Volcano],
			r.cells[simulated.Plain])
	}
	return text.String() + "\n"
}
