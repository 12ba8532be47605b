package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/internal/tree"
)

// readList returns the list and the modules of the repository.
func readList(t *testing.T) (List, modules.File) {
	t.Helper()
	registry, err := modules.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Read("stages.yaml", registry)
	if err != nil {
		t.Fatal(err)
	}
	return list, registry
}

func TestEveryFrameworkHasItsStages(t *testing.T) {
	t.Parallel()
	list, registry := readList(t)
	for _, framework := range registry.Names(modules.Framework) {
		for _, name := range []string{
			"conformance-" + framework, "crashes-" + framework + "-1", "hostile-" + framework,
		} {
			if !slices.ContainsFunc(list.InTurn, func(s Stage) bool { return s.Name == name }) {
				t.Errorf("there is no stage %s", name)
			}
		}
	}
}

// TestPartsOfStagesAreComplete checks that the stages that run a part of a check together run all of it.
func TestPartsOfStagesAreComplete(t *testing.T) {
	t.Parallel()
	list, _ := readList(t)
	part := regexp.MustCompile(`(part|PART)=([0-9]+)/([0-9]+)`)
	type check struct{ command, parts string }
	found := map[check][]string{}
	for _, s := range list.All() {
		if m := part.FindStringSubmatch(s.Run); m != nil {
			c := check{part.ReplaceAllString(s.Run, "$1"), m[3]}
			found[c] = append(found[c], m[2])
		}
	}
	if len(found) < 5 {
		t.Errorf("found %d checks in parts, want at least 5", len(found))
	}
	for c, parts := range found {
		n, err := strconv.Atoi(c.parts)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for k := range n {
			want = append(want, strconv.Itoa(k+1))
		}
		slices.Sort(parts)
		if diff := cmp.Diff(want, parts); diff != "" {
			t.Errorf("%s: unexpected parts (-want +got):\n%s", c.command, diff)
		}
	}
}

func TestStagesAndAreasForARoleAreRepeatedForEachModule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stages.yaml")
	content := `inTurn:
- {name: test-$module, each: framework, run: go test ./$module, seconds: 5}
- {name: b, run: "true", seconds: 1}
areas:
- {name: $module, each: framework, paths: [$module, examples/$module], stages: [test-$module, b]}
`
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := Read(file, modules.File{Modules: map[string]modules.Module{
		"jax": {Role: modules.Framework}, "torch": {Role: modules.Framework}, "common": {Role: modules.Library},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Stage{
		{Name: "test-jax", Run: "go test ./jax", Seconds: 5},
		{Name: "test-torch", Run: "go test ./torch", Seconds: 5},
		{Name: "b", Run: "true", Seconds: 1},
	}
	if diff := cmp.Diff(want, list.InTurn); diff != "" {
		t.Errorf("unexpected stages (-want +got):\n%s", diff)
	}
	wantAreas := []Area{
		{Name: "jax", Paths: []string{"jax", "examples/jax"}, Stages: []string{"test-jax", "b"}},
		{Name: "torch", Paths: []string{"torch", "examples/torch"}, Stages: []string{"test-torch", "b"}},
	}
	if diff := cmp.Diff(wantAreas, list.Areas); diff != "" {
		t.Errorf("unexpected areas (-want +got):\n%s", diff)
	}
}

func TestReadRejectsInvalidStages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ list, want string }{
		"a stage without a name":         {`always: [{run: "true"}]`, `the name "" is empty`},
		"two stages with the same name":  {`always: [{name: a, run: "true"}, {name: a, run: "true"}]`, `the name "a" is`},
		"neither a command nor a filter": {`always: [{name: a}]`, `stage "a" needs either run or e2e`},
		"both a command and a filter":    {`always: [{name: a, run: "true", e2e: b}]`, `stage "a" needs either run or e2e`},
		"a turn without a duration":      {`inTurn: [{name: a, run: "true"}]`, `stage "a" takes turns and needs seconds`},
		"an unknown field":               {`always: [{name: a, runs: "true"}]`, `unknown field`},
		"an area without a name":         {`areas: [{paths: [a]}]`, `the name "" of an area is empty`},
		"two areas with the same name":   {`areas: [{name: a}, {name: a}]`, `the name "a" of an area is`},
		"an invalid pattern":             {`areas: [{name: a, paths: ["["]}]`, `the pattern "[" is invalid`},
		"an area of an unknown stage":    {`areas: [{name: a, stages: [b*]}]`, `no stage takes turns with the name "b*"`},
		"an area of a stage of each run": {
			`{always: [{name: b, run: "true"}], areas: [{name: a, stages: [b]}]}`, `no stage takes turns with the name "b"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "stages.yaml")
			if err := os.WriteFile(file, []byte(tc.list), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(file, modules.File{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// list has three areas. Three stages test the area code, one stage tests the area docs, and all stages of InTurn test
// the area all.
var list = List{
	Always:      []Stage{{Name: "test", Run: "true"}, {Name: "e2e-always", E2E: "always"}},
	TurnSeconds: 10,
	InTurn: []Stage{
		{Name: "a", Run: "true", Seconds: 6},
		{Name: "b", Run: "true", Seconds: 4},
		{Name: "c", Run: "true", Seconds: 20},
		{Name: "e2e-x", E2E: "x", Seconds: 5},
		{Name: "e2e-y", E2E: "y", Seconds: 5},
	},
	Exhaustive: []Stage{{Name: "long", Run: "true"}},
	Areas: []Area{
		{Name: "code", Paths: []string{"code"}, Stages: []string{"[ab]", "e2e-x"}},
		{Name: "docs", Paths: []string{"docs/*.md"}, Stages: []string{"e2e-y"}},
		{Name: "all", Paths: []string{"all"}, Stages: []string{"*"}},
	},
}

// treeOf returns a tree with files, each given as "path content". The parameter number is the index of the stage of
// InTurn that the hash of the tree selects first.
func treeOf(number int, files ...string) Tree {
	tree := Tree{Hash: fmt.Sprintf("%016x%024x", number, 0), Files: map[string]string{}}
	for _, file := range files {
		path, content, _ := strings.Cut(file, " ")
		tree.Files[path] = content
	}
	return tree
}

func TestAnAreaHasFilesAndFolders(t *testing.T) {
	t.Parallel()
	area := Area{Paths: []string{"cli", "docs/cli-*.md", "*/test/*.go", "Makefile"}}
	for file, want := range map[string]bool{
		"cli/why/why.go": true, "docs/cli-why.md": true, "pytorch/test/jobs_test.go": true, "Makefile": true,
		"client/main.go": false, "docs/cli.md": false, "docs/train/images/cli-why.md": false, "pytorch/test/rest/a.go": false,
		"hack/Makefile": false,
	} {
		if got := area.Has(file); got != want {
			t.Errorf("whether the area has %s: %t, want %t", file, got, want)
		}
	}
}

func TestStagesThatTestTheChangeRunFirst(t *testing.T) {
	t.Parallel()
	before := treeOf(0, "code/main.go 1", "docs/a.md 1", "all 1", "other 1")
	for name, tc := range map[string]struct {
		tree               Tree
		remembered, failed []string
		want               string
	}{
		"without a change, the hash selects the stages": {
			tree: before, want: "test a b e2e-always",
		},
		"another hash selects others, from the first again after the last": {
			tree: treeOf(4, "code/main.go 1", "docs/a.md 1", "all 1"), want: "test b e2e-always e2e-y",
		},
		"a stage that takes longer than the limit runs alone": {
			tree: treeOf(2, "code/main.go 1", "docs/a.md 1", "all 1"), want: "test c e2e-always",
		},
		"the hash passes over stages that do not fit": {
			tree: treeOf(1, "code/main.go 1", "docs/a.md 1", "all 1"), want: "test b e2e-always e2e-x",
		},
		"a file of no area changes nothing": {
			tree: treeOf(0, "code/main.go 1", "docs/a.md 1", "all 1", "other 2"), want: "test a b e2e-always",
		},
		"a changed area comes first, and the hash selects the rest": {
			tree: treeOf(1, "code/main.go 1", "docs/a.md 2", "all 1"), want: "test b e2e-always e2e-y",
		},
		"a new file changes its area": {
			tree: treeOf(1, "code/main.go 1", "docs/a.md 1", "docs/b.md 1", "all 1"), want: "test b e2e-always e2e-y",
		},
		"the area with the fewest stages comes first": {
			tree: treeOf(0, "code/main.go 2", "docs/a.md 2", "all 1"), want: "test b e2e-always e2e-y",
		},
		"an area of all stages comes last": {
			tree: treeOf(0, "code/main.go 1", "docs/a.md 2", "all 2"), want: "test b e2e-always e2e-y",
		},
		"a remembered stage runs, whatever has changed": {
			tree: treeOf(0, "code/main.go 1", "docs/a.md 2", "all 1"), remembered: []string{"c", "a"},
			want: "test c e2e-always e2e-y",
		},
		"a changed area comes first although its stage is remembered": {
			tree: treeOf(0, "code/main.go 1", "docs/a.md 2", "all 1"), remembered: []string{"b", "a", "e2e-y"},
			want: "test b e2e-always e2e-y",
		},
		"a remembered stage runs without a change": {
			tree: before, remembered: []string{"e2e-x"}, want: "test b e2e-always e2e-x",
		},
		"a remembered stage that was renamed is forgotten": {
			tree: before, remembered: []string{"d"}, want: "test a b e2e-always",
		},
		"failed stages are added": {
			tree: before, failed: []string{"c", "e2e-y", "a", "long"}, want: "test a b c long e2e-always e2e-y",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := Records{Folder: t.TempDir()}
			for _, name := range tc.failed {
				if err := records.Fail(name); err != nil {
					t.Fatal(err)
				}
			}
			due, err := list.Due(tc.tree, Pending{Stages: tc.remembered, Areas: list.digests(before)}, records)
			if err != nil {
				t.Fatal(err)
			}
			if got := dueNames(due); got != tc.want {
				t.Errorf("the stages %s are due, want %s", got, tc.want)
			}
		})
	}
	if _, err := list.Due(Tree{Hash: "HEAD"}, Pending{}, Records{Folder: t.TempDir()}); err == nil {
		t.Error("Due returned no error for a text that is not a hash")
	}
}

// dueNames returns the names of stages, separated by spaces.
func dueNames(due []Due) string {
	var names []string
	for _, d := range due {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

// TestAStageThatTheLimitLeavesOutRunsNext makes one change that three stages test, and then changes of another area.
// The stage that does not fit into the first run must run with the next change.
func TestAStageThatTheLimitLeavesOutRunsNext(t *testing.T) {
	t.Parallel()
	pending := Pending{Areas: list.digests(treeOf(0, "code/main.go 1", "docs/a.md 1"))}
	var runs []string
	for change, tree := range []Tree{
		treeOf(0, "code/main.go 2", "docs/a.md 1"), treeOf(0, "code/main.go 2", "docs/a.md 2"),
		treeOf(0, "code/main.go 2", "docs/a.md 3"), treeOf(0, "code/main.go 2", "docs/a.md 4"),
	} {
		records := Records{Folder: t.TempDir()} // every change is tested on a new machine
		due, err := list.Due(tree, pending, records)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range due {
			if d.Why == isTouched || d.Why == isPending {
				runs = append(runs, fmt.Sprintf("%d %s: %s", change, d.Name, d.Why))
				if err := records.Pass(d.Name, list.digestFor(d.Stage, tree)); err != nil {
					t.Fatal(err)
				}
			}
		}
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "test/stages"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := pending.Update(list, tree, records).Write(root); err != nil {
			t.Fatal(err)
		}
		if pending, err = ReadPending(root); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"0 a: " + isTouched, "0 b: " + isTouched,
		"1 e2e-x: " + isPending, "1 e2e-y: " + isTouched,
		"2 e2e-y: " + isTouched, "3 e2e-y: " + isTouched,
	}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("unexpected runs (-want +got):\n%s", diff)
	}
}

func TestWithoutTheFileAllStagesArePending(t *testing.T) {
	t.Parallel()
	pending, err := ReadPending(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got := pending.Update(list, treeOf(0, "code/main.go 1", "docs/a.md 1", "all 1"), Records{Folder: t.TempDir()}).Stages
	if diff := cmp.Diff([]string{"e2e-y", "a", "b", "e2e-x", "c"}, got); diff != "" {
		t.Errorf("unexpected stages (-want +got):\n%s", diff)
	}
}

func TestEveryFileHasAnAreaAndEveryPathAFile(t *testing.T) {
	t.Parallel()
	list, _ := readList(t)
	files := tree.Files(t, "../..")
	for _, file := range files {
		if !slices.ContainsFunc(list.Areas, func(a Area) bool { return a.Has(file) }) {
			t.Errorf("%s belongs to no area in stages.yaml", file)
		}
	}
	for _, area := range list.Areas {
		for _, path := range area.Paths {
			if !slices.ContainsFunc(files, Area{Paths: []string{path}}.Has) {
				t.Errorf("area %q in stages.yaml: there is no file %s", area.Name, path)
			}
		}
	}
}

func TestEveryStageTestsAnArea(t *testing.T) {
	t.Parallel()
	list, _ := readList(t)
	for _, s := range list.InTurn {
		isTested := func(a Area) bool { return a.IsTestedBy(s.Name) && !slices.Contains(a.Stages, "*") }
		if !slices.ContainsFunc(list.Areas, isTested) {
			t.Errorf("%s tests no area in stages.yaml", s.Name)
		}
	}
}

// newRepository creates a repository with one committed file.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "file"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, output)
		}
	}
	return root
}

func TestTheTreeChangesWithFilesButNotWithCommits(t *testing.T) {
	t.Parallel()
	root := newRepository(t)
	hash := func() string {
		t.Helper()
		tree, err := ReadTree(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		return tree.Hash
	}
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	first := hash()
	write("file", "second")
	second := hash()
	write("another", "untracked")
	third := hash()
	if first == second || second == third || first == third {
		t.Errorf("the hashes are %s, %s and %s, want three different ones", first, second, third)
	}
	if err := os.MkdirAll(filepath.Join(root, "test/stages"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(PendingFile, "stages: []")
	if again := hash(); again != third {
		t.Errorf("the hash is %s with the file of pending stages, want %s, the hash without it", again, third)
	}
	if err := os.Remove(filepath.Join(root, "another")); err != nil {
		t.Fatal(err)
	}
	write("file", "first")
	cmd := exec.Command("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty",
		"-m", "second")
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if again := hash(); again != first {
		t.Errorf("the hash is %s, want %s, the hash of the same files before", again, first)
	}
}

func TestAFailedStageRunsAgainUntilItPasses(t *testing.T) {
	t.Parallel()
	root := newRepository(t)
	var output bytes.Buffer
	r := &Runner{
		Root: root, Output: &output, Records: Records{Folder: t.TempDir()},
		List: List{TurnSeconds: 1, InTurn: []Stage{
			{Name: "wants-good", Run: "grep -q good file", Seconds: 1}, {Name: "other", Run: "true", Seconds: 1},
		}},
	}
	ctx := context.Background()
	err := r.All(ctx)
	if err == nil || !strings.HasPrefix(err.Error(), "wants-good failed") {
		t.Fatalf("error %v, want an error that begins with %q", err, "wants-good failed")
	}
	// The hash of the files selects one of the two stages. The failed stage runs in addition, whatever the hash is,
	// until it passes.
	for _, content := range []string{"bad 1", "bad 2", "bad 3"} {
		if err := os.WriteFile(filepath.Join(root, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(ctx); err == nil {
			t.Fatalf("Once returned no error for the content %q", content)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("good"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Once(ctx); err != nil {
		t.Fatal(err)
	}
	if r.Records.Failed("wants-good") {
		t.Error("the stage has passed and is still recorded as failed")
	}
}

func TestAllRunsOnlyStagesThatHaveNotPassed(t *testing.T) {
	t.Parallel()
	root := newRepository(t)
	var output bytes.Buffer
	runs := t.TempDir()
	r := &Runner{
		Root: root, Output: &output, Records: Records{Folder: t.TempDir()},
		List: List{InTurn: []Stage{
			{Name: "first", Run: "echo first >> " + runs + "/log", Seconds: 1},
			{Name: "second", Run: "echo second >> " + runs + "/log; test -e " + runs + "/fixed", Seconds: 1},
			{Name: "third", Run: "echo third >> " + runs + "/log", Seconds: 1},
			{Name: "last", Run: "echo last >> " + runs + "/log", Seconds: 1},
		}},
	}
	if err := r.All(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), `no stage "none"`) {
		t.Fatalf("error %v, want an error with %q", err, `no stage "none"`)
	}
	if err := r.All(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	if want := "third (1 s in stages.yaml)\n"; !strings.Contains(output.String(), want) {
		t.Errorf("the output %q does not contain %q", output.String(), want)
	}
	if err := r.All(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "second failed") {
		t.Fatalf("error %v, want an error that begins with %q", err, "second failed")
	}
	if err := os.WriteFile(filepath.Join(runs, "fixed"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.All(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(filepath.Join(runs, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"third", "first", "second", "last", "second"}, strings.Fields(string(log))); diff != "" {
		t.Errorf("unexpected runs (-want +got):\n%s", diff)
	}
}

func TestOneSelectedStageIsNotOptional(t *testing.T) {
	t.Parallel()
	before := treeOf(0, "code/main.go 1", "docs/a.md 1", "all 1")
	for name, tc := range map[string]struct {
		tree       Tree
		remembered []string
		want       string
	}{
		"the first one that the change touches": {
			tree:       treeOf(0, "code/main.go 2", "docs/a.md 1", "all 1"),
			remembered: []string{"e2e-x"}, want: "a",
		},
		"the first pending one if the change touches nothing": {tree: before, remembered: []string{"e2e-x"}, want: "e2e-x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, err := list.Due(tc.tree, Pending{Stages: tc.remembered, Areas: list.digests(before)}, Records{t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			due = slices.DeleteFunc(due, func(d Due) bool { return d.IsOptional || d.Why == runsAlways })
			if got := dueNames(due); got != tc.want {
				t.Errorf("the selected stages that are not optional are %q, want %s", got, tc.want)
			}
		})
	}
}

func TestOptionalStagesThatExceedTheLimitAreLeftForLaterRuns(t *testing.T) {
	t.Parallel()
	needed, short, long := Stage{Name: "needed", Seconds: 30}, Stage{Name: "short", Seconds: 10},
		Stage{Name: "long", Seconds: 50}
	isOptional := map[string]bool{"short": true, "long": true}
	group := []Stage{long, short, needed}
	for name, tc := range map[string]struct {
		limit, elapsed int
		following      [][]Stage
		want           []Stage
		wantLeft       []Stage
	}{
		"all stages fit exactly": {limit: 100, elapsed: 10, want: group},
		"the stages that come first run first": {
			limit: 100, elapsed: 11, want: []Stage{long, needed}, wantLeft: []Stage{short},
		},
		"a later stage runs if it fits": {
			limit: 100, elapsed: 21, want: []Stage{short, needed}, wantLeft: []Stage{long},
		},
		"a stage that is not optional runs after the limit": {
			limit: 100, elapsed: 200, want: []Stage{needed}, wantLeft: []Stage{long, short},
		},
		"time is reserved for what follows": {
			limit: 100, elapsed: 10, following: [][]Stage{{needed}}, want: []Stage{short, needed}, wantLeft: []Stage{long},
		},
		"no time is reserved for optional stages that follow": {
			limit: 100, elapsed: 10, following: [][]Stage{{short}, {long}}, want: group,
		},
		"without a limit, all stages run": {elapsed: 10000, want: group},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			elapsed := time.Duration(tc.elapsed) * time.Second
			fit, left := List{LimitSeconds: tc.limit}.fitting(group, tc.following, isOptional, elapsed)
			if diff := cmp.Diff([][]Stage{tc.want, tc.wantLeft}, [][]Stage{fit, left}); diff != "" {
				t.Errorf("unexpected stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndToEndSpecsOfSeveralStagesRunTogether(t *testing.T) {
	t.Parallel()
	a, b := Stage{Name: "a", Run: "true"}, Stage{Name: "b", Run: "true"}
	x, y := Stage{Name: "x", E2E: "x"}, Stage{Name: "y", E2E: "y"}
	if diff := cmp.Diff([][]Stage{{a}, {x, y}, {b}}, groups([]Stage{a, x, b, y})); diff != "" {
		t.Errorf("unexpected groups (-want +got):\n%s", diff)
	}
	if got, want := command(list.InTurn[3:]), `make e2e FOCUS="(x) || (y)"`; got != want {
		t.Errorf("the command is %s, want %s", got, want)
	}
}

func TestOnlyTheStageOfAFailedSpecFails(t *testing.T) {
	t.Parallel()
	spec := func(label string, state types.SpecState, skipped string) types.SpecReport {
		return types.SpecReport{
			LeafNodeType: types.NodeTypeIt, LeafNodeLabels: []string{label}, State: state, RunTime: time.Second,
			Failure: types.Failure{Message: skipped},
		}
	}
	content, err := json.Marshal([]types.Report{{SpecReports: types.SpecReports{
		spec("good", types.SpecStatePassed, ""), spec("good", types.SpecStatePassed, ""),
		spec("good", types.SpecStateSkipped, "there is no GPU"),
		spec("bad", types.SpecStatePassed, ""), spec("bad", types.SpecStateFailed, ""),
		spec("interrupted", types.SpecStateSkipped, ""),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	root := newRepository(t)
	report := filepath.Join(t.TempDir(), "report.json")
	makefile := fmt.Sprintf("e2e:\n\tcp %s $$E2E_REPORT\n\tfalse\n", report)
	for file, content := range map[string][]byte{
		report: content, filepath.Join(root, "Makefile"): []byte(makefile),
	} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stages []Stage
	for _, name := range []string{"good", "bad", "interrupted", "none"} {
		stages = append(stages, Stage{Name: name, E2E: name, Seconds: 1})
	}
	var output bytes.Buffer
	r := &Runner{Root: root, Output: &output, Records: Records{Folder: t.TempDir()}, List: List{InTurn: stages}}
	if err := r.All(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "bad, interrupted, none failed") {
		t.Errorf("error %v, want one of the stages bad, interrupted and none", err)
	}
	if want := "good (3 specs, 3 s one after the other)"; !strings.Contains(output.String(), want) {
		t.Errorf("the output lacks %q:\n%s", want, output.String())
	}
	if r.Records.Failed("good") || !r.Records.Failed("bad") {
		t.Error("good is recorded as failed, or bad is not")
	}
}

func TestAllStagesFailIfTheFailureBelongsToNoSpec(t *testing.T) {
	t.Parallel()
	content, err := json.Marshal([]types.Report{{SpecReports: types.SpecReports{
		{LeafNodeType: types.NodeTypeIt, LeafNodeLabels: []string{"x"}, State: types.SpecStatePassed},
		{LeafNodeType: types.NodeTypeReportAfterSuite, State: types.SpecStateFailed},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(report, content, 0o644); err != nil {
		t.Fatal(err)
	}
	group := []Stage{{Name: "e2e-x", E2E: "x"}}
	if got := results(group, true, report); got[0].passed {
		t.Error("e2e-x has passed although its command has failed")
	}
	if got := results(group, false, report); !got[0].passed {
		t.Error("e2e-x has failed although its command and its spec have passed")
	}
	if got := results([]Stage{{Name: "e2e-y", E2E: "y"}}, false, report); got[0].passed {
		t.Error("e2e-y has passed without a spec")
	}
}

func TestPendingStagesAreWrittenAfterARun(t *testing.T) {
	t.Parallel()
	root := newRepository(t)
	if err := os.MkdirAll(filepath.Join(root, "test/stages"), 0o755); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	r := &Runner{
		Root: root, Output: &output, Records: Records{Folder: t.TempDir()},
		List: List{
			TurnSeconds: 1,
			InTurn:      []Stage{{Name: "a", Run: "true", Seconds: 1}, {Name: "b", Run: "true", Seconds: 1}},
			Areas:       []Area{{Name: "file", Paths: []string{"file"}, Stages: []string{"*"}}},
		},
	}
	for _, want := range []string{"a tests what the change touches", "b tests what an earlier change touched"} {
		output.Reset()
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output.String(), "=== "+want+"\n") {
			t.Errorf("the output lacks %q:\n%s", want, output.String())
		}
		if err := r.WritePending(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pending, err := ReadPending(root)
	if err != nil || len(pending.Stages) != 0 {
		t.Errorf("the stages %q are pending (%v), want none", pending.Stages, err)
	}
	if err := os.WriteFile(filepath.Join(root, PendingFile), []byte("<<<<<<< ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPending(root); err == nil || !strings.Contains(err.Error(), PendingFile) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestPendingStagesBeginAnywhere(t *testing.T) {
	t.Parallel()
	stages := []Stage{{Name: "x"}, {Name: "y"}, {Name: "z"}}
	for last, want := range map[byte][]string{3: {"x", "y", "z"}, 4: {"y", "z", "x"}, 5: {"z", "x", "y"}} {
		var got []string
		for _, s := range fromAnywhere(stages, []byte{0, 0, 0, 0, 0, 0, 0, last}) {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected order with a hash that ends with %d (-want +got):\n%s", last, diff)
		}
	}
	if got := fromAnywhere(nil, make([]byte, 8)); got != nil {
		t.Errorf("no stages become %v", got)
	}
}
