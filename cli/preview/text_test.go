package preview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShellLine(t *testing.T) {
	for name, tc := range map[string]struct {
		words []string
		style style
		want  string
	}{
		"plain words need no quotes": {
			words: []string{"python3", "--lr=0.1", "/code/train.py"}, want: "python3 --lr=0.1 /code/train.py",
		},
		"an empty word is visible":       {words: []string{"echo", ""}, want: "echo ''"},
		"other words are quoted":         {words: []string{"echo", "$(RANK)", "it's"}, want: `echo '$(RANK)' 'it'\''s'`},
		"lines of a script are kept":     {words: []string{"sh", "-c", "a\nb"}, want: "sh -c 'a\nb'"},
		"control characters are escaped": {words: []string{"\x1b[2J"}, want: `'\x1b[2J'`},
		"a long line is broken": {
			words: []string{strings.Repeat("a", 60), strings.Repeat("b", 60)}, style: style{width: 100},
			want: strings.Repeat("a", 60) + " \\\n" + strings.Repeat("b", 60),
		},
		"the host name of a pod is left out": {
			words: []string{"wait", "job-0.job", "job-1.job"}, style: style{without: "job-0"}, want: "wait job-1.job",
		},
		"a long word loses its middle": {
			words: []string{"abcdef"}, style: style{word: 3}, want: "ab[...]f",
		},
		"a command line that is too long is cut": {
			words: []string{"ab", "cd", "ef"}, style: style{line: 3}, want: "ab cd [...]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.style.shellLine(tc.words)); diff != "" {
				t.Errorf("unexpected text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCountsUp(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b       string
		difference int
		want       bool
	}{
		"equal texts count up":                       {"a 1", "a 1", 3, true},
		"a number can differ as the ranks do":        {"RANK=1", "RANK=4", 3, true},
		"each number can differ":                     {"job-worker-9 port 20009", "job-worker-10 port 20010", 1, true},
		"a number cannot differ in another way":      {"RANK=1", "RANK=3", 3, false},
		"other characters cannot differ":             {"RANK=1", "NODE=1", 0, false},
		"a longer text differs":                      {"a", "ab", 1, false},
		"a text that ends with a number differs":     {"a", "a1", 1, false},
		"a number that is too long to count differs": {"9999999999999999999998", "9999999999999999999999", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := countsUp(tc.a, tc.b, tc.difference); got != tc.want {
				t.Errorf("countsUp(%q, %q, %d) = %t, want %t", tc.a, tc.b, tc.difference, got, tc.want)
			}
		})
	}
}
