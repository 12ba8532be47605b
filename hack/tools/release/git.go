package main

import (
	"context"
	"fmt"
)

// commit commits the release in the worktree, where no branch is checked out. It returns the ID of the commit.
func (r *release) commit(ctx context.Context) (head string, err error) {
	subject := fmt.Sprintf("Release %s %s", r.module, r.version)
	if _, err := r.git(ctx, r.tree, "commit", "--quiet", "--allow-empty", "--message", subject); err != nil {
		return "", err
	}
	return r.git(ctx, r.tree, "rev-parse", "HEAD")
}

// merge merges the commit of the release into the branch that is checked out, and tags it.
func (r *release) merge(ctx context.Context, commit, message string) error {
	if _, err := r.git(ctx, r.root, "merge", "--quiet", "--ff-only", commit); err != nil {
		return err
	}
	_, err := r.git(ctx, r.root, "tag", "--annotate", r.tag(), "--message", message, commit)
	return err
}

func (r *release) git(ctx context.Context, folder string, args ...string) (string, error) {
	return r.command(ctx, folder, "git", args...)
}
