// Package mutants checks the exploration of small jobs: with each of a number of bugs in the job controller, it must
// fail. A bug is marked beside the code, on the line before the one that it replaces:
//
//	//mutant:a finished job goes on => case false:
//	case v.job.Status.Finished():
//
// With nothing after the arrow, the line is removed. If the name begins with "a gang: ", only jobs in a queue show the
// bug. Each of them has been a bug of this controller, or of another operator.
package mutants

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mutant is a bug: a line of a file, and what takes its place.
type mutant struct {
	name string
	// path of the file, and the index of the line in it.
	path string
	line int
	// code that takes the place of the line.
	code string
}

// ofGangs is how the names of those begin that only jobs in a queue show.
const ofGangs = "a gang: "

// mark matches the line that marks a mutant.
var mark = regexp.MustCompile(`^\s*//mutant:(.+?) =>(?: (.+))?$`)

// mutantsOf returns the mutants that are marked under a directory, by their names.
func mutantsOf(t *testing.T, root string) []mutant {
	t.Helper()
	var found []mutant
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		marked, err := parse(path, string(source))
		found = append(found, marked...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b mutant) int { return strings.Compare(a.name, b.name) })
	return found
}

// parse returns the mutants that are marked in a file. It returns an error for a mark that cannot be read.
func parse(path, source string) ([]mutant, error) {
	var found []mutant
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), "//mutant:") {
			continue
		}
		match := mark.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("%s:%d: a mark is //mutant:name => code, and the code may be missing", path, i+1)
		}
		next := i + 1
		for next < len(lines) && mark.MatchString(lines[next]) {
			next++
		}
		if next == len(lines) || strings.TrimSpace(lines[next]) == match[2] {
			return nil, fmt.Errorf("%s:%d: mutant %q changes nothing", path, i+1, match[1])
		}
		found = append(found, mutant{name: match[1], path: path, line: next, code: match[2]})
	}
	return found, nil
}

func TestMarks(t *testing.T) {
	t.Parallel()
	found := mutantsOf(t, filepath.Join("..", "..", "common"))
	if len(found) < 37 {
		t.Errorf("%d mutants are marked, and there were 37", len(found))
	}
	for i := 1; i < len(found); i++ {
		if found[i].name == found[i-1].name {
			t.Errorf("two mutants have the name %q", found[i].name)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const path = "a.go"
	for name, tc := range map[string]struct {
		source  string
		want    []mutant
		wantErr string
	}{
		"no mark": {source: "a\nb"},
		"a line that is replaced": {
			source: "\t//mutant:it lies => return false\n\treturn true\n", want: []mutant{{"it lies", path, 1, "return false"}},
		},
		"a line that is removed": {source: "//mutant:it forgets =>\ncount++", want: []mutant{{"it forgets", path, 1, ""}}},
		"two mutants of one line": {
			source: "//mutant:one =>\n//mutant:two => c\nb", want: []mutant{{"one", path, 2, ""}, {"two", path, 2, "c"}},
		},
		"a mark without an arrow": {
			source: "//mutant:it lies\nb", wantErr: "a.go:1: a mark is //mutant:name => code, and the code may be missing",
		},
		"a mark at the end":   {source: "//mutant:it lies =>", wantErr: `a.go:1: mutant "it lies" changes nothing`},
		"a mark of no change": {source: "//mutant:it lies => b\nb", wantErr: `a.go:1: mutant "it lies" changes nothing`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(path, tc.source)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(mutant{})); diff != "" {
				t.Errorf("unexpected mutants (-want +got):\n%s", diff)
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
		})
	}
}

func TestExplorationFindsEveryMutant(t *testing.T) {
	if os.Getenv("MUTANTS") == "" {
		t.Skip("it builds the job controller once for each mutant; `make mutants` runs it")
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("MUTANTS"), "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("$MUTANTS is %q, want a part such as 1/3", os.Getenv("MUTANTS"))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutantsOf(t, filepath.Join(root, "common")) {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			jobs := "PlainKind/small_jobs"
			if strings.HasPrefix(m.name, ofGangs) {
				jobs += ".*/a_gang"
			}
			test := exec.Command("go", "test", "-overlay", m.overlay(t), "-vet=off", "-count=1", "-failfast",
				"-run", jobs, "./kit/conformance", "-conformance.full")
			test.Dir = root
			output, err := test.CombinedOutput()
			_, trace, found := strings.Cut(string(output), "1. the user creates the job")
			if err == nil || !found {
				t.Fatalf("it is not found:\n%s", output)
			}
			trace, _, _ = strings.Cut(trace, "--- ")
			t.Logf("found:\n%s", trace)
		})
	}
}

// overlay writes the file with the bug, and returns the path of what tells go to compile it.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(m.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	lines[m.line] = m.code
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.path))
	if err := os.WriteFile(mutated, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{m.path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
