// Package work checks that the work of a controller does not grow faster than a list that a tenant writes.
package work

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"tensorstack.dev/jobs/test/internal/mutant"
	"tensorstack.dev/jobs/test/internal/tree"
	"tensorstack.dev/jobs/test/internal/work"
)

// root is the root of the repository.
const root = "../.."

func TestTheWorkForAListGrowsWithItsLength(t *testing.T) {
	isAskedFor(t)
	counts := measure(t, build(t, root), "")
	if len(counts) < 1000 {
		t.Errorf("only %d cases were measured", len(counts))
	}
	for series := range slices.Chunk(counts, 3) {
		if growth := growthOf(series); growth > work.MaxGrowth {
			t.Errorf("the work grows by %.1f to %.0f operations for %s", growth, series[2].operations, series[2].about)
		}
	}
}

// TestTheSmallObjectsAreValid checks that the controllers find no error in the objects whose lists grow. After an
// error, they would skip a part of their work.
func TestTheSmallObjectsAreValid(t *testing.T) {
	t.Parallel()
	subjects, err := work.Subjects(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects {
		if err := s.Do(t.Context()); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// TestASearchForEachItemGrowsFaster adds a bug to the tensorboard-controller. With the bug, the work of the
// controller grows with the square of the length of a list. The measured growth must then exceed the limit of
// TestTheWorkForAListGrowsWithItsLength.
func TestASearchForEachItemGrowsFaster(t *testing.T) {
	isAskedFor(t)
	folder := t.TempDir() // for a copy of the source, because go build -cover ignores overlays
	tree.Copy(t, root, folder)
	for _, m := range mutant.Below(t, filepath.Join(folder, "tensorboard")).Attacks {
		if m.Bug == "the number of a run is searched from the start" {
			m.Apply(t)
		}
	}
	counts := measure(t, build(t, folder), "tensorboard-controller TensorBoard: spec.logDir.pvc of")
	if len(counts) != 6 {
		t.Fatalf("%d cases were measured, want 6", len(counts))
	}
	if most := max(growthOf(counts[:3]), growthOf(counts[3:])); most <= work.MaxGrowth {
		t.Errorf("the work grows by %.1f, want more than %d", most, work.MaxGrowth)
	}
}

// isAskedFor skips the test unless $WORK is set. `make work` sets the variable. The tests that call isAskedFor take
// about a minute.
func isAskedFor(t *testing.T) {
	t.Helper()
	if os.Getenv("WORK") == "" {
		t.Skip("run make work")
	}
}

// count is the number of operations of a case.
type count struct {
	about      string
	operations float64
}

// growthOf returns the growth of the operations in the three cases of a series (see work.Growth).
func growthOf(series []count) float64 {
	return work.Growth([3]float64{series[0].operations, series[1].operations, series[2].operations})
}

// build builds the command test/cmd/work of a repository. The binary counts the operations in the code of the
// controllers.
func build(t *testing.T, repository string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "work")
	counted := "tensorstack.dev/jobs/test/cmd/work" // without the main package, the counters cannot be written
	for _, module := range []string{"common", "pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"} {
		counted += ",tensorstack.dev/jobs/" + module + "/..."
	}
	output(t, "go", "build", "-C="+repository, "-cover", "-covermode=atomic", "-coverpkg="+counted, "-o="+binary,
		"tensorstack.dev/jobs/test/cmd/work")
	return binary
}

// measure returns the counts of the cases whose description begins with the given text.
func measure(t *testing.T, binary, only string) []count {
	t.Helper()
	folder, covdata := t.TempDir(), filepath.Join(t.TempDir(), "covdata")
	output(t, "go", "build", "-o", covdata, "cmd/covdata")
	lines := strings.Split(strings.TrimSpace(output(t, binary, "-root="+root, "-out="+folder, "-only="+only)), "\n")
	counts := make([]count, len(lines))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, about := range lines {
		group.Go(func() error {
			operations, err := sum(covdata, filepath.Join(folder, strconv.Itoa(i)))
			counts[i] = count{about, operations}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// sum returns the number of operations that the counters in a folder show. It deletes the folder, because the
// profiles of all cases take 600 MB.
func sum(covdata, folder string) (float64, error) {
	profile := filepath.Join(folder, "profile")
	if message, err := exec.Command(covdata, "textfmt", "-i="+folder, "-o="+profile).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("covdata: %w\n%s", err, message)
	}
	content, err := os.ReadFile(profile)
	if err != nil {
		return 0, err
	}
	if err := os.RemoveAll(folder); err != nil {
		return 0, err
	}
	total := 0.0
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // position, number of statements, number of executions
		// Controllers measure the size of a large object one more time than the size of a small object. This additional
		// work does not grow with the length of a list, so the operations of memsize do not count.
		if len(fields) != 3 || strings.HasPrefix(fields[0], "tensorstack.dev/jobs/common/memsize/") {
			continue
		}
		statements, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, err
		}
		times, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return 0, err
		}
		total += statements * times
	}
	return total, nil
}

func output(t *testing.T, command string, arguments ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), command, arguments...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	return stdout.String()
}
