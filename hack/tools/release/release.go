package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

type release struct {
	root, module, version, date, platforms string
	dry                                    bool
	out, warnings                          io.Writer

	// tree is the Git worktree in which the release is made.
	tree string
	pins versions.File
}

func (r *release) tag() string { return r.module + "/" + r.version }

func (r *release) role() versions.Role { return r.pins.Modules[r.module].Role }

func (r *release) run(ctx context.Context) (err error) {
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if r.pins, err = versions.Read(filepath.Join(r.root, "versions.yaml")); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	obstacles, err := r.obstacles(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(obstacles...); err != nil && !r.dry {
		return err
	}

	parent, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	r.tree = filepath.Join(parent, "tree")
	if _, err := r.git(ctx, r.root, "worktree", "add", "--quiet", "--detach", r.tree, "HEAD"); err != nil {
		return errors.Join(err, os.RemoveAll(parent))
	}
	defer func() {
		_, removed := r.git(context.WithoutCancel(ctx), r.root, "worktree", "remove", "--force", r.tree)
		err = errors.Join(err, removed, os.RemoveAll(parent))
	}()
	entries, err := r.edit()
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, r.tree, "add", "--all"); err != nil {
		return err
	}
	var commit string
	if !r.dry {
		// Release commits before it makes the files, because the programs of a client contain the ID of the commit.
		if commit, err = r.commit(ctx); err != nil {
			return err
		}
	}
	files, err := r.render(ctx)
	if err != nil {
		return err
	}
	message := fmt.Sprintf("%s %s\n\n%s\n", r.module, r.version, entries)
	if r.dry {
		diff, err := r.git(ctx, r.tree, "diff", "--cached")
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "%s\n\nIt would be tagged %s:\n\n%s\n%s", diff, r.tag(), message, written(files))
		return errors.Join(obstacles...)
	}
	if err := r.merge(ctx, commit, message); err != nil {
		return err
	}
	statement, err := r.provenance(commit, files)
	if err != nil {
		return err
	}
	files = append(files, statement)
	const push = "Committed and tagged %[1]s. Nothing is pushed yet:\n\n" +
		"  git push origin HEAD\n  git push origin %[1]s\n\n%[2]s"
	fmt.Fprintf(r.out, push, r.tag(), written(files))
	fmt.Fprintf(r.warnings, "Warning: nothing is signed. If you have the key, run: make sign MODULE=%s KEY=cosign.key\n",
		r.module)
	return nil
}

// check returns an error if the module does not exist or the version is invalid.
func (r *release) check() error {
	if _, ok := r.pins.Modules[r.module]; !ok {
		return fmt.Errorf("versions.yaml has no module %q: set MODULE to one of its modules", r.module)
	}
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("%q is not a version: set VERSION to a semantic version, such as v0.2.0", r.version)
	}
	path := versions.Prefix + r.module
	if err := module.Check(path, r.version); err != nil {
		return fmt.Errorf("%s does not match the path of the module: rename the module first, or choose another version: %w",
			r.version, err)
	}
	return nil
}

// written returns a line for each file that was written.
func written(files []string) string {
	var lines strings.Builder
	for _, file := range files {
		fmt.Fprintf(&lines, "Written: %s\n", filepath.Join(artifacts, file))
	}
	return lines.String()
}
