// Package upgrade has what the tests of upgrades start from: the source of the version before, and what its CRDs must
// have in common with those of the tree.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrSkipped says that the source of the version before can neither be found in the repository nor be fetched, and that
// $WITHOUT_HISTORY accepts that.
var ErrSkipped = errors.New("skipped for $WITHOUT_HISTORY")

// WritePrevious writes the source of the version before, which versions.yaml names as upgradesFrom, into a folder, and
// returns its name. A shallow repository fetches what it lacks of it from its origin; where that fails and
// $WITHOUT_HISTORY is set the error is an ErrSkipped.
func WritePrevious(ctx context.Context, repo, folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(repo, "versions.yaml"))
	if err != nil {
		return "", err
	}
	var versions struct {
		UpgradesFrom string `json:"upgradesFrom"`
	}
	if err := yaml.Unmarshal(content, &versions); err != nil || versions.UpgradesFrom == "" {
		return "", fmt.Errorf("versions.yaml does not say upgradesFrom: %w", err)
	}
	revision := versions.UpgradesFrom
	commit, err := git(ctx, repo, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		if _, err := git(ctx, repo, "fetch", "--quiet", "--depth=1", "origin", revision); err != nil {
			err = fmt.Errorf("the repository has no %s, the upgradesFrom of versions.yaml; git fetch --unshallow gets it: %w",
				revision, err)
			if os.Getenv("WITHOUT_HISTORY") != "" {
				err = fmt.Errorf("%w: %w", ErrSkipped, err)
			}
			return "", err
		}
		if commit, err = git(ctx, repo, "rev-parse", "--verify", "FETCH_HEAD^{commit}"); err != nil {
			return "", err
		}
	}
	archive := filepath.Join(folder, ".archive.tar")
	if _, err := git(ctx, repo, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return "", err
	}
	if output, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking the source of %s: %w: %s", revision, err, output)
	}
	return revision, os.Remove(archive)
}

func git(ctx context.Context, repo string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...)
	output, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(output)), err
}
