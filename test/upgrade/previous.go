// Package upgrade provides the source of the previous version to the tests of upgrades, and compares the CRDs of two
// versions.
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

// ErrSkipped is the error of WritePrevious if the repository lacks the previous version and cannot fetch it, but
// $WITHOUT_HISTORY allows this.
var ErrSkipped = errors.New("skipped because of $WITHOUT_HISTORY")

// WritePrevious writes the source of the previous version into a folder. It returns the name of this version, which
// is upgradesFrom in versions.yaml. If the repository is a shallow clone without this version, WritePrevious fetches
// the version from the origin. If the fetch fails and $WITHOUT_HISTORY is set, the error is an ErrSkipped.
func WritePrevious(ctx context.Context, repo, folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(repo, "versions.yaml"))
	if err != nil {
		return "", err
	}
	var versions struct {
		UpgradesFrom string `json:"upgradesFrom"`
	}
	if err := yaml.Unmarshal(content, &versions); err != nil || versions.UpgradesFrom == "" {
		return "", fmt.Errorf("versions.yaml has no upgradesFrom: %w", err)
	}
	revision := versions.UpgradesFrom
	commit, err := git(ctx, repo, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		if _, err := git(ctx, repo, "fetch", "--quiet", "--depth=1", "origin", revision); err != nil {
			err = fmt.Errorf("the repository has no %s, the upgradesFrom in versions.yaml: run git fetch --unshallow: %w",
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
