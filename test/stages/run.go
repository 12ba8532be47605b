package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Runner runs stages at the root of a repository.
type Runner struct {
	Root    string
	List    List
	Records Records
	Output  io.Writer
}

// Due returns the stages that are due for the current files, and the tree of these files.
func (r *Runner) Due(ctx context.Context) ([]Due, Tree, error) {
	tree, err := ReadTree(ctx, r.Root)
	if err != nil {
		return nil, tree, err
	}
	pending, err := ReadPending(r.Root)
	if err != nil {
		return nil, tree, err
	}
	due, err := r.List.Due(tree, pending, r.Records)
	return due, tree, err
}

// Once runs the stages that are due for the current files. It stops at the first failure.
func (r *Runner) Once(ctx context.Context) error {
	due, tree, err := r.Due(ctx)
	if err != nil {
		return err
	}
	var stages []Stage
	isOptional := map[string]bool{}
	for _, d := range due {
		fmt.Fprintf(r.Output, "=== %s %s\n", d.Name, d.Why)
		stages = append(stages, d.Stage)
		isOptional[d.Name] = d.IsOptional
	}
	if err := r.run(ctx, tree, groups(stages), isOptional, false); err != nil {
		return err
	}
	pending, err := r.pending(tree)
	if err == nil && len(pending.Stages) > 0 {
		fmt.Fprintf(r.Output, "=== pending stages, which `make pending` writes to %s: %s\n", PendingFile,
			strings.Join(pending.Stages, ", "))
	}
	return err
}

// WritePending updates PendingFile. It adds the stages that test a changed area, and removes the stages that have
// passed on this machine with the current files.
func (r *Runner) WritePending(ctx context.Context) error {
	tree, err := ReadTree(ctx, r.Root)
	if err != nil {
		return err
	}
	pending, err := r.pending(tree)
	if err != nil {
		return err
	}
	return pending.Write(r.Root)
}

// pending returns the pending stages for a tree. It takes the runs on this machine into account.
func (r *Runner) pending(tree Tree) (Pending, error) {
	pending, err := ReadPending(r.Root)
	if err != nil {
		return pending, err
	}
	return pending.Update(r.List, tree, r.Records), nil
}

// All runs the named stages, or all stages if none is named. It skips stages that have passed on the current files. A
// stage that fails does not stop the others. The error names all failed stages.
func (r *Runner) All(ctx context.Context, only ...string) error {
	stages := r.List.All()
	for _, name := range only {
		if !slices.ContainsFunc(stages, func(s Stage) bool { return s.Name == name }) {
			return fmt.Errorf("test/stages/stages.yaml has no stage %q", name)
		}
	}
	tree, err := ReadTree(ctx, r.Root)
	if err != nil {
		return err
	}
	var left []Stage
	for _, s := range stages {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		if r.Records.Passed(s.Name, tree.Hash) {
			fmt.Fprintf(r.Output, "=== %s has already passed on this tree\n", s.Name)
			continue
		}
		left = append(left, s)
	}
	return r.run(ctx, tree, groups(left), nil, true)
}

// groups divides stages into groups. One command runs each group. All stages with end-to-end specs form one group, at
// the position of the first of them. So these stages share an installation, and specs of different stages can run at
// the same time. Every other stage is a separate group.
func groups(stages []Stage) [][]Stage {
	var groups [][]Stage
	specs := -1
	for _, s := range stages {
		switch {
		case s.E2E == "":
			groups = append(groups, []Stage{s})
		case specs < 0:
			specs = len(groups)
			groups = append(groups, []Stage{s})
		default:
			groups[specs] = append(groups[specs], s)
		}
	}
	return groups
}

// run runs groups of stages, each with one command. It leaves out optional stages if there is no time for them. It
// stops after a failure, unless keepGoing is true.
func (r *Runner) run(
	ctx context.Context, tree Tree, groups [][]Stage, isOptional map[string]bool, keepGoing bool,
) error {
	folder, err := os.MkdirTemp("", "reports-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	started := time.Now()
	since := func(t time.Time) int { return int(time.Since(t).Round(time.Second).Seconds()) }
	var summary strings.Builder
	passed := 0
	var failures []error
	for i, group := range groups {
		group, left := r.List.fitting(group, groups[i+1:], isOptional, time.Since(started))
		if len(left) > 0 {
			fmt.Fprintf(r.Output, "=== no time is left for %s\n", names(left))
		}
		if len(group) == 0 {
			continue
		}
		name := names(group)
		fmt.Fprintf(r.Output, "=== %s: %s (after %d s)\n", name, command(group), since(started))
		began := time.Now()
		report := filepath.Join(folder, fmt.Sprintf("%d.json", i))
		commandErr := r.command(ctx, group, report)
		fmt.Fprintf(&summary, "%6d s  %s%s\n", since(began), name, expected(group))
		var failed []string
		for _, result := range results(group, commandErr != nil, report) {
			if result.passed {
				passed++
				err = r.Records.Pass(result.Name, tree.Hash, r.List.digestFor(result.Stage, tree))
			} else {
				failed = append(failed, result.Name)
				err = r.Records.Fail(result.Name)
			}
			if err != nil {
				return err
			}
			if result.specs > 0 {
				fmt.Fprintf(&summary, "          %s\n", result)
			}
		}
		if len(failed) == 0 {
			continue
		}
		if commandErr == nil {
			commandErr = errors.New("there are no specs with its labels")
		}
		err := fmt.Errorf("%s failed after %d s: %w", strings.Join(failed, ", "), since(began), commandErr)
		if !keepGoing || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(r.Output, "=== %v\n", err)
		failures = append(failures, err)
	}
	_, err = fmt.Fprintf(r.Output, "=== %d stages passed in %d s\n%s", passed, since(started), summary.String())
	return errors.Join(append(failures, err)...)
}

func names(group []Stage) string {
	var names []string
	for _, s := range group {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// expected returns how long a group takes according to stages.yaml. It is empty if stages.yaml has no duration for the
// group. With the duration of a run, it shows which durations in stages.yaml are wrong.
func expected(group []Stage) string {
	seconds := 0
	for _, s := range group {
		seconds += s.Seconds
	}
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d s in stages.yaml)", seconds)
}

// command returns the shell command that runs a group: one stage, or several with end-to-end specs.
func command(group []Stage) string {
	if len(group) == 1 && group[0].Run != "" {
		return group[0].Run
	}
	return fmt.Sprintf("make e2e FOCUS=%q", Filter(group))
}

// command runs the command of a group. End-to-end specs write their report to the path in the parameter report.
func (r *Runner) command(ctx context.Context, group []Stage, report string) error {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command(group))
	cmd.Env = append(os.Environ(), "E2E_REPORT="+report)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, r.Output, r.Output
	// The command is interrupted instead of killed, so that it and its children can remove the clusters and processes
	// that they started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}
