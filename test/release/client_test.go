package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/tree"
)

// client builds and packs kubectl train in a copy of the sources, for the platform of this machine. It returns the
// folder with the files.
func client(t *testing.T, sources string, settings ...string) string {
	t.Helper()
	parts := []string{"cli", "hack", "versions.yaml", "Dockerfile", "LICENSE"}
	tree.Copy(t, root, sources, slices.AppendSeq(parts, maps.Keys(readVersions(t).Modules["cli"].Requires))...)
	build := exec.CommandContext(t.Context(), "hack/client.sh", "cli", "bin/client", "linux/"+runtime.GOARCH)
	build.Dir = sources
	build.Env = append(append(os.Environ(), "REVISION=1cc8f15"), settings...)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	return filepath.Join(sources, "bin/client")
}

// TestClientIsReproducible builds kubectl train in two folders with different settings of Go. The checksums must be
// equal, so that everybody can verify a release by building it again. Then it follows the steps of a user who installs
// the archive.
func TestClientIsReproducible(t *testing.T) {
	t.Parallel()
	files := client(t, filepath.Join(t.TempDir(), "here"))
	version := readVersions(t).Modules["cli"].Version
	name := "kubectl-train_" + version + "_checksums.txt"
	var sums [2]string
	for i, folder := range []string{
		files, client(t, filepath.Join(t.TempDir(), "somewhere/else"), "GOFLAGS=-tags=else", "GOAMD64=v3", "GOARM64=v9.0",
			"GOEXPERIMENT=jsonv2"),
	} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(content)
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("the files differ (-here +somewhere else):\n%s", diff)
	}

	// kubectl finds the plugin and its script for completion in the PATH.
	programs := t.TempDir()
	platform := "linux_" + runtime.GOARCH
	for _, step := range []struct{ command, want string }{
		{"grep -F " + platform + ".tar.gz " + name + " | sha256sum --check", platform + ".tar.gz: OK"},
		{"tar xvzf kubectl-train_" + version + "_" + platform + ".tar.gz -C " + programs, "THIRD_PARTY_LICENSES"},
		{"kubectl train version --client", "Client Version: " + version + " (revision 1cc8f15, Go "},
		{"kubectl __complete train vers", "version\t"},
	} {
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", step.command)
		command.Dir = files
		command.Env = append(os.Environ(),
			"PATH="+strings.Join([]string{programs, os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}, ":"))
		if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), step.want) {
			t.Fatalf("%s: %v, want %q\n%s", step.command, err, step.want, output)
		}
	}
	sbom := filepath.Join(files, "kubectl-train_"+version+"_"+platform+".cdx.json")
	expectLicenses(t, modulesOf(t, sbom), filepath.Join(programs, "THIRD_PARTY_LICENSES"))
}
