package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/module"
)

func TestPackIncludesTheFilesThatGitDoesNotIgnore(t *testing.T) {
	t.Parallel()
	root, output := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"LICENSE": "Apache-2.0\n",
		"versions.yaml": "modules:\n  common: {version: v0.2.0, role: library}\n  kit: {version: v0.3.0, role: library}\n" +
			"  pytorch: {version: v0.1.0, role: framework, common: v0.1.0, kit: v0.2.0}\n",
		"pytorch/go.mod":          "module tensorstack.dev/jobs/pytorch\n",
		".gitignore":              "*.tar\n",
		"common/go.mod":           "module tensorstack.dev/jobs/common\n\ngo 1.26.0\n",
		"common/api/job.go":       "package api\n",
		"common/testdata/a.txt":   "a\n",
		"common/image.tar":        "ignored\n",
		"kit/go.mod":              "module tensorstack.dev/jobs/kit\n",
		"docs/operate/metrics.md": "in no module\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.CommandContext(t.Context(), "git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, output)
	}
	packed, err := pack(root, output)
	if err != nil {
		t.Fatal(err)
	}
	want := []module.Version{
		{Path: "tensorstack.dev/jobs/common", Version: "v0.2.0"},
		{Path: "tensorstack.dev/jobs/kit", Version: "v0.3.0"},
		{Path: "tensorstack.dev/jobs/pytorch", Version: "v0.1.0"},
	}
	if diff := cmp.Diff(want, packed); diff != "" {
		t.Errorf("unexpected modules (-want +got):\n%s", diff)
	}
	// A library is packed a second time in the version that pytorch requires.
	if _, err := os.Stat(filepath.Join(output, "tensorstack.dev/jobs/kit/@v/v0.2.0.zip")); err != nil {
		t.Error(err)
	}
	folder := filepath.Join(output, "tensorstack.dev/jobs/common/@v")
	archive, err := zip.OpenReader(filepath.Join(folder, "v0.1.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var got []string
	for _, f := range archive.File {
		got = append(got, strings.TrimPrefix(f.Name, "tensorstack.dev/jobs/common@v0.1.0/"))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"LICENSE", "api/job.go", "go.mod", "testdata/a.txt"}, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"list": "v0.2.0\nv0.1.0\n", "v0.1.0.info": `{"Version":"v0.1.0"}`,
		"v0.1.0.mod": "module tensorstack.dev/jobs/common\n\ngo 1.26.0\n",
	} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(content)); diff != "" {
			t.Errorf("unexpected %s (-want +got):\n%s", name, diff)
		}
	}
}
