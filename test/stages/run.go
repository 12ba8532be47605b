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

// Once runs the stages that are due for the current files. It stops at the first failure.
func (r *Runner) Once(ctx context.Context) error {
	tree, err := Tree(ctx, r.Root)
	if err != nil {
		return err
	}
	due, err := r.List.Due(tree, r.Records.Failed)
	if err != nil {
		return err
	}
	return r.run(ctx, tree, groups(due), false)
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
	tree, err := Tree(ctx, r.Root)
	if err != nil {
		return err
	}
	passed, err := r.Records.Passed(tree)
	if err != nil {
		return err
	}
	var left []Stage
	for _, s := range stages {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		if slices.Contains(passed, s.Name) {
			fmt.Fprintf(r.Output, "=== %s has already passed on this tree\n", s.Name)
			continue
		}
		left = append(left, s)
	}
	return r.run(ctx, tree, groups(left), true)
}

// groups collects the stages that one command runs. All stages with end-to-end specs form one group, at the position
// of the first. They share the installation, and more specs can wait at the same time. Every other stage has a separate
// command.
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

// run runs groups of stages, each with one command. It stops after a failure, unless keepGoing is true.
func (r *Runner) run(ctx context.Context, tree string, groups [][]Stage, keepGoing bool) error {
	started := time.Now()
	since := func(t time.Time) int { return int(time.Since(t).Round(time.Second).Seconds()) }
	var summary strings.Builder
	passed := 0
	var failures []error
	for _, group := range groups {
		name := names(group)
		fmt.Fprintf(r.Output, "=== %s: %s (after %d s)\n", name, command(group), since(started))
		began := time.Now()
		if err := r.command(ctx, group); err != nil {
			for _, s := range group {
				if failed := r.Records.Fail(tree, s.Name); failed != nil {
					return failed
				}
			}
			err = fmt.Errorf("%s failed after %d s: %w", name, since(began), err)
			if !keepGoing || ctx.Err() != nil {
				return err
			}
			fmt.Fprintf(r.Output, "=== %v\n", err)
			failures = append(failures, err)
			continue
		}
		for _, s := range group {
			if err := r.Records.Pass(tree, s.Name); err != nil {
				return err
			}
		}
		passed += len(group)
		fmt.Fprintf(&summary, "%6d s  %s\n", since(began), name)
	}
	_, err := fmt.Fprintf(r.Output, "=== %d stages passed in %d s\n%s", passed, since(started), summary.String())
	return errors.Join(append(failures, err)...)
}

func names(group []Stage) string {
	var names []string
	for _, s := range group {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// command returns the shell command that runs a group: one stage, or several with end-to-end specs.
func command(group []Stage) string {
	if len(group) == 1 && group[0].Run != "" {
		return group[0].Run
	}
	return fmt.Sprintf("make e2e FOCUS=%q", Filter(group))
}

func (r *Runner) command(ctx context.Context, group []Stage) error {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command(group))
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, r.Output, r.Output
	// An interrupted make ends its children, and these remove the clusters and processes that they started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}

// Tree returns git's hash of the files of a working tree. It includes uncommitted changes, but no ignored files.
func Tree(ctx context.Context, root string) (string, error) {
	folder, err := os.MkdirTemp("", "tree-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(folder, "index"))
		output, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s in %s: %w", args[0], root, err)
		}
		return strings.TrimSpace(string(output)), nil
	}
	if _, err := git("read-tree", "HEAD"); err != nil {
		return "", err
	}
	if _, err := git("add", "--all"); err != nil {
		return "", err
	}
	return git("write-tree")
}
