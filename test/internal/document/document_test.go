package document

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# A page

## First

~~~console
$ kubectl get jobs
NAME  AGE
a     5s
$ kubectl apply \
  -f a.yaml
~~~

~~~sh
make test
~~~

## Second

~~~console
$ cat <<EOF
$ text
EOF
$ text
~~~
`

func TestStepsAreTheCommandsOfASection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(page, "~~~", "```")), 0o600); err != nil {
		t.Fatal(err)
	}
	first := []Step{
		{Command: "kubectl get jobs", Prints: []string{"NAME  AGE", "a     5s"}},
		{Command: "kubectl apply \\\n  -f a.yaml"},
	}
	second := []Step{{Command: "cat <<EOF\n$ text\nEOF"}, {Command: "text"}}
	all, err := All(file)
	if diff := cmp.Diff(slices.Concat(first, second), all); diff != "" || err != nil {
		t.Errorf("unexpected steps of the file, %v (-want +got):\n%s", err, diff)
	}
	for section, want := range map[string][]Step{
		"First": first, "Second": second, "Third": nil,
	} {
		steps, err := Steps(file, section)
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("unexpected steps of section %q (-want +got):\n%s", section, diff)
		}
		if (err == nil) != (want != nil) {
			t.Errorf("the error of section %q is %v", section, err)
		}
	}
}

func TestABlockBeginsWithACommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("```console\n$ a\n```\n```console\nb\n```\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := All(file); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error %v, want one that names the line", err)
	}
}

func TestCompareAcceptsAnOutputThatHasTheShownLinesInOrder(t *testing.T) {
	t.Parallel()
	shown := []string{"NAME   PHASE", "digits-... Running 5s", "loss 0.5"}
	for name, tc := range map[string]struct {
		shown  []string
		output string
		failed error
		want   bool
	}{
		"other spaces, ages and words for dots":   {shown, "NAME PHASE\ndigits-abc   Running 3m2s\n  loss 0.5", nil, true},
		"other lines between the shown ones":      {shown, "a\nNAME PHASE\nb\ndigits-a Running 1s\nloss 0.5\nc", nil, true},
		"the name of a process before a line":     {[]string{"loss 0.5"}, "[default0]:loss 0.5", nil, true},
		"a command that fails as the page shows":  {[]string{"Error: no job"}, "Error: no job", errors.New("exit 1"), true},
		"a line is missing":                       {shown, "NAME PHASE\nloss 0.5", nil, false},
		"the lines have another order":            {shown, "digits-a Running 1s\nNAME PHASE\nloss 0.5", nil, false},
		"a word differs":                          {shown, "NAME PHASE\ndigits-a Failed 1s\nloss 0.5", nil, false},
		"a command fails that shows no output":    {nil, "not found", errors.New("exit 1"), false},
		"a command succeeds that shows no output": {nil, "created", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (Step{Prints: tc.shown}).Compare(tc.output, tc.failed); (err == nil) != tc.want {
				t.Errorf("the error is %v; whether the output is accepted: want %t", err, tc.want)
			}
		})
	}
}
