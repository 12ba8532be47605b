package upgrade

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever has a shallow clone is told so, and does not take tests for passed that have not run.
func TestWithoutTheVersionBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		withoutHistory string
		skipped        bool
	}{
		"it is an error":                     {},
		"it is skipped if that is asked for": {withoutHistory: "true", skipped: true},
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
				t.Errorf("the error is %v, want one that says what to do, skipped: %t", err, tc.skipped)
			}
		})
	}
}
