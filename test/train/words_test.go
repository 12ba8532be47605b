package train

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tensorstack.dev/jobs/cli/screen"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// TestReasonsHaveWords checks that the screens have words for each reason that the status of a job can have.
func TestReasonsHaveWords(t *testing.T) {
	t.Parallel()
	sections := map[string][]string{
		"jobs.md": {
			"Reasons of Initialized", "Reasons of Running", "Reasons of Paused, and of Running while the job is paused",
			"Reasons of SuccessCriteriaMet and FailureTarget, and later of Completed and Failed",
		},
		"scheduler.md": {"Reasons of the conditions of a PodGroup"},
	}
	// No job has these reasons. The first three are reasons of a PodGroup that does not wait. The last one is a reason
	// of a PodGroup with a field that the engine ignores.
	notOfJobs := []string{
		schedulerv1beta1.ReasonAdmitted, schedulerv1beta1.ReasonEnoughPods, schedulerv1beta1.ReasonScheduled,
		schedulerv1beta1.ReasonNotSupportedByEngine,
	}
	reason := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
	for file, headings := range sections {
		content, err := os.ReadFile(filepath.Join("../../docs/reference", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, heading := range headings {
			_, section, found := strings.Cut(string(content), "\n## "+heading+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			reasons := reason.FindAllStringSubmatch(section, -1)
			if !found || len(reasons) == 0 {
				t.Errorf("%s has no reasons below %q", file, heading)
			}
			for _, r := range reasons {
				if !screen.HasWords(r[1]) && !slices.Contains(notOfJobs, r[1]) {
					t.Errorf("package screen has no words for %s, which docs/reference/%s lists below %q", r[1], file, heading)
				}
			}
		}
	}
}
