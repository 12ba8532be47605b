package stages

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// result is the result of a stage.
type result struct {
	Stage
	passed bool
	// specs is the number of end-to-end specs, and duration is the sum of their durations. Several specs run at a time.
	specs    int
	duration time.Duration
}

// String returns the name of the stage, with the number and the total duration of its specs.
func (r result) String() string {
	return fmt.Sprintf("%s (%d specs, %.0f s one after the other)", r.Name, r.specs, r.duration.Seconds())
}

// results returns the results of the stages of a group whose command has ended. The report of Ginkgo, if there is
// one, has the result of each stage with end-to-end specs. All other stages have the result of the command. If the
// command has failed although the report shows no failure, all stages have failed.
func results(group []Stage, commandFailed bool, report string) []result {
	results := make([]result, 0, len(group))
	specs, err := readReport(report)
	for _, s := range group {
		result := result{Stage: s, passed: !commandFailed}
		if s.E2E != "" && err == nil {
			result = resultOf(s, specs)
		}
		results = append(results, result)
	}
	if commandFailed && !slices.ContainsFunc(results, func(r result) bool { return !r.passed }) {
		for i := range results {
			results[i].passed = false // something has failed that belongs to no spec
		}
	}
	return results
}

// readReport returns the specs of a JSON report of Ginkgo.
func readReport(file string) (types.SpecReports, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, err
	}
	var specs types.SpecReports
	for _, report := range reports {
		specs = append(specs, report.SpecReports.WithLeafNodeType(types.NodeTypeIt)...)
	}
	return specs, nil
}

// resultOf returns the result of a stage. The stage has passed if it has specs, and each of them has passed or has
// skipped itself with a message. If Ginkgo skips a spec after a failure, the spec has no message or a message from
// Ginkgo. Such a spec has not passed.
func resultOf(s Stage, specs types.SpecReports) result {
	result := result{Stage: s}
	matches, err := types.ParseLabelFilter(s.E2E)
	if err != nil {
		return result
	}
	failed := false
	for _, spec := range specs {
		if !matches(spec.Labels()) {
			continue
		}
		result.specs++
		result.duration += spec.RunTime
		message := spec.Failure.Message
		skippedItself := spec.State == types.SpecStateSkipped && message != "" &&
			!strings.HasPrefix(message, "Spec skipped because")
		failed = failed || spec.State != types.SpecStatePassed && !skippedItself
	}
	result.passed = !failed && result.specs > 0
	return result
}
