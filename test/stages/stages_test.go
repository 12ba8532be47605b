package stages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/modules"
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
		for _, name := range []string{"conformance-" + framework, "crashes-" + framework, "hostile-" + framework} {
			if !slices.ContainsFunc(list.InTurn, func(s Stage) bool { return s.Name == name }) {
				t.Errorf("there is no stage %s", name)
			}
		}
	}
}

func TestAStageForARoleIsRepeatedForEachModule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stages.yaml")
	content := `inTurn:
- {name: test-$module, each: framework, run: go test ./$module, seconds: 5}
- {name: b, run: "true", seconds: 1}
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

var list = List{
	Always:         []Stage{{Name: "test", Run: "true"}, {Name: "e2e-always", E2E: "always"}},
	TurnSeconds:    10,
	E2ETurnSeconds: 5,
	InTurn: []Stage{
		{Name: "a", Run: "true", Seconds: 6},
		{Name: "b", Run: "true", Seconds: 4},
		{Name: "c", Run: "true", Seconds: 20},
		{Name: "e2e-x", E2E: "x", Seconds: 5},
		{Name: "e2e-y", E2E: "y", Seconds: 5},
	},
}

// tree returns the hash of a tree that selects the turns with these numbers.
func tree(commands, specs int) string { return fmt.Sprintf("%016x%016x%08x", commands, specs, 0) }

func TestTheTreeSelectsOneTurnOfCommandsAndOneOfSpecs(t *testing.T) {
	t.Parallel()
	never := func(string) bool { return false }
	for name, tc := range map[string]struct {
		tree   string
		failed func(string) bool
		want   string
	}{
		"0 selects the first turns":                    {tree(0, 0), never, "test a b e2e-always e2e-x"},
		"1 selects the second turns":                   {tree(1, 1), never, "test c e2e-always e2e-y"},
		"larger numbers begin again at the first turn": {tree(2, 3), never, "test a b e2e-always e2e-y"},
		"failed stages are added to any turn": {
			tree(0, 0), func(s string) bool { return s == "c" || s == "e2e-y" }, "test a b c e2e-always e2e-x e2e-y",
		},
		"a failed stage of the selected turn runs once": {
			tree(0, 0), func(s string) bool { return s == "a" }, "test a b e2e-always e2e-x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, err := list.Due(tc.tree, tc.failed)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(names(due), ",", ""); got != tc.want {
				t.Errorf("the stages %s are due, want %s", got, tc.want)
			}
		})
	}
	if _, err := list.Due("HEAD", never); err == nil {
		t.Error("Due returned no error for a text that is not a hash")
	}
}

func TestEveryStageHasItsTurn(t *testing.T) {
	t.Parallel()
	list, _ := readList(t)
	seen := map[string]bool{}
	for i := range 200 {
		due, err := list.Due(tree(i, i), func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range due {
			seen[s.Name] = true
		}
	}
	for _, s := range slices.Concat(list.Always, list.InTurn) {
		if !seen[s.Name] {
			t.Errorf("%s is never due", s.Name)
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
		tree, err := Tree(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		return tree
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
	// The failed stage runs with every tree, whichever turn the tree selects.
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
