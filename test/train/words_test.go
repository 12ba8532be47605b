package train

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tensorstack.dev/jobs/cli/why"
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
				if why.Words(r[1]) == "" {
					t.Errorf("package why has no words for %s, which docs/reference/%s lists below %q", r[1], file, heading)
				}
			}
		}
	}
}
