package upgrade

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWithoutThePreviousVersion calls WritePrevious in a repository without history. The error must show the problem,
// so that users do not mistake tests that have not run for tests that have passed.
func TestWithoutThePreviousVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		withoutHistory string
		skipped        bool
	}{
		"it is an error by default":           {},
		"it is skipped with $WITHOUT_HISTORY": {withoutHistory: "true", skipped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WITHOUT_HISTORY", tc.withoutHistory)
			repo := t.TempDir()
			if output, err := exec.CommandContext(t.Context(), "git", "init", "-q", repo).CombinedOutput(); err != nil {
				t.Fatalf("git init: %v: %s", err, output)
			}
			versions := []byte("upgradesFrom: 907c086c3fee1baa560830c993ef5245989ad060\n")
			if err := os.WriteFile(filepath.Join(repo, "versions.yaml"), versions, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := WritePrevious(t.Context(), repo, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") ||
				errors.Is(err, ErrSkipped) != tc.skipped {
				t.Errorf("the error is %v, want one with git fetch --unshallow, and skipped: %t", err, tc.skipped)
			}
		})
	}
}
