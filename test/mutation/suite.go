package mutation

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tensorstack.dev/jobs/test/internal/mutant"
)

// switchCode has the functions that the code of mutants calls. It lacks the package clause.
//
//go:embed switch.go.txt
var switchCode string

const (
	// slowTest is the run time above which a test is slow. A slow test runs only on mutants that the other tests do not
	// detect.
	slowTest = 50 * time.Millisecond
	// unitLimit is the timeout for the tests of a package with one mutant. A test that times out has detected the
	// mutant. behindLimit is the timeout for the tests of Package.Behind.
	unitLimit, behindLimit = time.Minute, 5 * time.Minute
	// memoryLimit is the address space of a test binary in KiB. A mutant can allocate memory without end.
	memoryLimit = 8 << 20
)

// suite is the test binary of a package. It contains all mutants of a target, which is the same package or another
// one.
type suite struct {
	binary, dir string
	// flags are the flags of the binary.
	flags []string
	// limit is the timeout of the tests with one mutant.
	limit time.Duration
	// The maps quick and slow list, for the ID of each mutant, the quick and the slow tests that reach the mutant.
	quick, slow map[int][]string
}

// target is a package with mutants.
type target struct {
	root    string
	pkg     *pkg
	mutants []Mutant
	// equivalents explain mutants. Their paths are relative to the root.
	equivalents []mutant.Equivalent
	// overlay is the overlay file with which go compiles the package with all mutants.
	overlay string
}

// newTarget writes the files of a package, with all their mutants, into a folder. If the parameter files is not
// empty, it names the files to write.
func newTarget(root, dir string, files []string, folder string) (*target, error) {
	p, err := loadPackage(root, dir)
	if err != nil {
		return nil, err
	}
	listed, err := mutant.Read(p.dir)
	if err != nil {
		return nil, err
	}
	t := &target{root: root, pkg: p, overlay: filepath.Join(folder, "overlay.json")}
	replace := map[string]string{}
	write := func(name string, text []byte) error {
		written := filepath.Join(folder, name)
		replace[filepath.Join(p.dir, name)] = written
		return os.WriteFile(written, text, 0o600)
	}
	for _, s := range p.files {
		name := filepath.Base(s.path)
		if len(files) > 0 && !slices.Contains(files, name) {
			continue
		}
		path := filepath.ToSlash(filepath.Join(dir, name))
		mutants, text := weave(p, s, path, len(t.mutants)+1)
		t.mutants = append(t.mutants, mutants...)
		for _, e := range listed.Equivalents {
			if e.Path == s.path {
				e.Path = path
				t.equivalents = append(t.equivalents, e)
			}
		}
		if err := write(name, text); err != nil {
			return nil, err
		}
	}
	if err := write("zz_mutants.go", []byte("package "+p.name+switchCode)); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return t, os.WriteFile(t.overlay, overlay, 0o600)
}

// compile compiles the tests of a package with all mutants of the target.
func (t *target) compile(
	ctx context.Context, dir, folder string, limit time.Duration, flags ...string,
) (*suite, error) {
	s := &suite{
		binary: filepath.Join(folder, filepath.Base(dir)+".test"), dir: filepath.Join(t.root, dir),
		flags: flags, limit: limit,
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", t.overlay, "-o", s.binary, "./"+dir)
	build.Dir = t.root
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the mutants of %s: %w: %s", dir, err, output)
	}
	help, _ := exec.CommandContext(ctx, s.binary, "-help").CombinedOutput()
	// Tests with the library rapid must be deterministic and write no files.
	if strings.Contains(string(help), "-rapid.seed") {
		s.flags = append(s.flags, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ns")
	}
	return s, nil
}

// record runs each test separately and without a mutant. For each mutant that a test reaches, it adds the test to the
// map quick or to the map slow.
func (s *suite) record(ctx context.Context, folder string, parallel int) error {
	output, err := s.command(ctx, "-test.list=.").Output()
	if err != nil {
		return fmt.Errorf("listing the tests of %s: %w", s.dir, err)
	}
	tests := strings.Fields(string(output))
	reached := make([][]int, len(tests))
	took := make([]time.Duration, len(tests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, test := range tests {
		group.Go(func() error {
			file := filepath.Join(folder, filepath.Base(s.binary)+"."+strconv.Itoa(i))
			run := s.command(ctx, "-test.run=^"+test+"$")
			run.Env = append(run.Environ(), "MUTANT_RECORD="+file)
			start := time.Now()
			output, err := run.CombinedOutput()
			if took[i] = time.Since(start); err != nil {
				return fmt.Errorf("%s fails without a mutant: %w: %s", test, err, output)
			}
			reached[i], err = readIDs(file)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.quick, s.slow = map[int][]string{}, map[int][]string{}
	for i, test := range tests {
		by := s.quick
		if took[i] > slowTest {
			by = s.slow
		}
		for _, id := range reached[i] {
			by[id] = append(by[id], test)
		}
	}
	return nil
}

func readIDs(file string) ([]int, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the test reaches no mutant
	}
	if err != nil {
		return nil, err
	}
	var ids []int
	for field := range bytes.FieldsSeq(content) {
		id, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// kills reports whether a test fails with a mutant.
func (s *suite) kills(ctx context.Context, m Mutant) (bool, error) {
	for _, tests := range [][]string{s.quick[m.ID], s.slow[m.ID]} {
		if len(tests) == 0 {
			continue
		}
		if killed, err := s.fails(ctx, m, tests); killed || err != nil {
			return killed, err
		}
	}
	return false, nil
}

// fails reports whether at least one of the tests fails with a mutant.
func (s *suite) fails(ctx context.Context, m Mutant, tests []string) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	run := s.command(limited, "-test.failfast", "-test.run=^("+strings.Join(tests, "|")+")$")
	run.Env = append(run.Environ(), "MUTANT="+strconv.Itoa(m.ID))
	err := run.Run()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && limited.Err() == nil {
		return false, err
	}
	return err != nil, nil
}

// survivors returns the mutants that make no test fail.
func (s *suite) survivors(ctx context.Context, mutants []Mutant, parallel int) ([]Mutant, error) {
	killed := make([]bool, len(mutants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, m := range mutants {
		group.Go(func() (err error) {
			killed[i], err = s.kills(ctx, m)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var survivors []Mutant
	for i, m := range mutants {
		if !killed[i] {
			survivors = append(survivors, m)
		}
	}
	return survivors, nil
}

// command returns a command that runs the binary in the folder of its package, with bounded memory.
func (s *suite) command(ctx context.Context, args ...string) *exec.Cmd {
	limited := fmt.Sprintf(`ulimit -v %d && exec "$@"`, memoryLimit)
	arguments := append([]string{"-c", limited, "sh", s.binary}, s.flags...)
	run := exec.CommandContext(ctx, "sh", append(arguments, args...)...)
	run.Dir = s.dir
	return run
}
