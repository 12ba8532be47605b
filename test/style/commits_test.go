package style

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// lastUnchecked is the last commit that is older than the rule about subjects. Only later commits are checked.
const lastUnchecked = "ec35dff20735bac461cdd0112a64aa44ef846bf4"

// maxSubject is the maximum length of the subject of a commit, in characters.
const maxSubject = 72

func TestSubjectsOfCommitsAreShortImperatives(t *testing.T) {
	t.Parallel()
	git := func(arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, arguments...)...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if _, err := git("merge-base", "--is-ancestor", lastUnchecked, "HEAD"); err != nil {
		t.Skipf("the history does not reach back to %s: the clone is shallow", lastUnchecked)
	}
	subjects, err := git("log", "--no-merges", "--format=%h %s", lastUnchecked+"..HEAD")
	if err != nil {
		t.Fatalf("%v: %s", err, subjects)
	}
	for line := range strings.Lines(subjects) {
		commit, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if finding := checkSubject(subject); finding != "" {
			t.Errorf("commit %s: %s: %q", commit, finding, subject)
		}
	}
}

// subjectForm matches an area, a colon, a verb in lower case, and a text that does not end with a full stop.
var subjectForm = regexp.MustCompile(`^[a-z][a-z0-9 /,._-]*: ([a-z-]+) .*[^.]$`)

// notImperative matches verbs in other forms, such as "adds", "added" and "adding".
var notImperative = regexp.MustCompile(`^(?:.+ing|.+[^e]ed|.*[^s]s)$`)

// imperatives are the imperatives that notImperative matches by mistake.
var imperatives = map[string]bool{"bring": true, "embed": true, "focus": true, "shed": true, "bypass": true}

// checkSubject returns a message about how the subject of a commit breaks the rule of docs/contribute/style.md, or ""
// if it follows the rule.
func checkSubject(subject string) string {
	if length := utf8.RuneCountInString(subject); length > maxSubject {
		return fmt.Sprintf("the subject has %d characters, and %d are allowed", length, maxSubject)
	}
	match := subjectForm.FindStringSubmatch(subject)
	if match == nil {
		return `the subject must be an area, a colon, and an imperative without a full stop: "plan: delete lost pods"`
	}
	if verb := match[1]; notImperative.MatchString(verb) && !imperatives[verb] {
		return fmt.Sprintf("the subject must be an imperative, and %q is none", verb)
	}
	return ""
}

func TestCheckSubject(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"plan: delete pods of lost nodes after the delay": "",
		"common/plan, kit: bring back a test":             "",
		"test: process no more jobs":                      "",
		"plan: deletes pods":                              `the subject must be an imperative, and "deletes" is none`,
		"plan: deleted pods":                              `the subject must be an imperative, and "deleted" is none`,
		"plan: deleting pods":                             `the subject must be an imperative, and "deleting" is none`,
		"plan: " + strings.Repeat("x", 70) + " y":         "the subject has 78 characters, and 72 are allowed",
	} {
		if diff := cmp.Diff(want, checkSubject(subject)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", subject, diff)
		}
	}
	for _, subject := range []string{"Delete pods", "plan: Delete pods", "plan: delete pods.", "plan: delete"} {
		if got := checkSubject(subject); !strings.HasPrefix(got, "the subject must be an area") {
			t.Errorf("%q has no area, or no imperative in lower case, or a full stop: got %q", subject, got)
		}
	}
}
