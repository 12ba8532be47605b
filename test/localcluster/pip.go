package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// installRequirements installs the packages of PyPI into a folder, for the Python of the image.
func installRequirements(ctx context.Context, image trainingImage, tmp, packages string) error {
	if err := os.Mkdir(packages, 0o755); err != nil || image.Requirements == "" {
		return err
	}
	options := []string{"--target", packages, "--python-version", image.Debian.Python, "--no-compile"}
	source := image.Source
	if source == nil {
		return pipInstall(ctx, tmp, image.Requirements, nil, options...)
	}
	// With build isolation, pip would use any version of the build tools, without checking a hash. With its cache, pip
	// could use a wheel that other versions of the tools have built. So both are off.
	tools := filepath.Join(tmp, "tools")
	if err := pipInstall(ctx, tmp, strings.Join(source.Tools, "\n"), nil, "--target", tools); err != nil {
		return err
	}
	options = append(options, "--no-binary", source.Name, "--no-build-isolation", "--no-cache-dir")
	return pipInstall(ctx, tmp, image.Requirements+source.Requirement, append(source.Env, "PYTHONPATH="+tools), options...)
}

// pipInstall installs the packages of a lock file with the pip configuration of this machine. pip verifies the hashes.
func pipInstall(ctx context.Context, tmp, requirements string, env []string, options ...string) error {
	lock := filepath.Join(tmp, "requirements.txt")
	if err := os.WriteFile(lock, []byte(requirements), 0o644); err != nil {
		return err
	}
	args := []string{
		"install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
		"--no-deps", "--require-hashes", "--requirement", lock, // the lock file has all dependencies
	}
	cmd := exec.CommandContext(ctx, "pip3", append(args, options...)...)
	cmd.Env = slices.Concat(os.Environ(), env, []string{"TMPDIR=" + tmp})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip3 install: %w\n%s\nThe first build needs access to the package index (pip3 config list)",
			err, lastLines(out, 15))
	}
	return nil
}
