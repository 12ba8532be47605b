// Package tree lists and copies the files of the repository for tests.
package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Files returns the files of the repository at root that git does not ignore, as paths relative to root. If there are
// patterns of git ls-files, only files that match a pattern are returned.
func Files(t testing.TB, root string, patterns ...string) []string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", append([]string{
		"-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
	}, patterns...)...)
	output, err := git.Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	var files []string
	for file := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil { // git also lists files that are deleted
			files = append(files, file)
		}
	}
	return files
}

// Copy copies the files that Files returns from root into a folder.
func Copy(t testing.TB, root, folder string, patterns ...string) {
	t.Helper()
	for _, file := range Files(t, root, patterns...) {
		from, to := filepath.Join(root, file), filepath.Join(folder, file)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}
