package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

func (r *release) command(ctx context.Context, folder, name string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = folder, &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimRight(string(output), "\n"), nil
}
