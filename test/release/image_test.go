package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/tree"
)

// TestImageBuildsAreReproducible builds an image in two folders with different settings of Go. The digests must be
// equal, so that everybody can verify a release by building it again.
func TestImageBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	var digests [2]string
	for i, folder := range []string{"here", "somewhere/else"} {
		builder := [][]string{nil, {"GOFLAGS=-tags=else", "GOAMD64=v3", "GOARM64=v9.0", "GOEXPERIMENT=jsonv2"}}[i]
		sources := filepath.Join(t.TempDir(), folder)
		tree.Copy(t, root, sources, "common", "pytorch", "hack", "versions.yaml", "Dockerfile", "LICENSE")
		build := exec.CommandContext(t.Context(), "hack/build.sh", "pytorch", "bin")
		build.Dir = sources
		build.Env = append(append(os.Environ(), "REVISION=1cc8f15"), builder...)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building: %v\n%s", err, output)
		}
		pack := exec.CommandContext(t.Context(), "go", "run", "./image", "-name", "tensorstack/pytorch-controller:v0.1.0",
			"-revision", "1cc8f15", "-folders", "linux/amd64="+filepath.Join(sources, "bin"),
			"-layout", filepath.Join(sources, "image.oci"), "-archive", filepath.Join(sources, "image.tar"))
		pack.Dir = filepath.Join(sources, "hack/tools")
		pack.Env = append(os.Environ(), "GOWORK=off")
		output, err := pack.Output()
		if err != nil {
			t.Fatalf("packing: %v", err)
		}
		digests[i] = string(output)

		modules := modulesOf(t, filepath.Join(sources, "bin/sbom.cdx.json"))
		for _, module := range []string{"tensorstack.dev/jobs/common", "sigs.k8s.io/controller-runtime"} {
			if modules[module] == "" {
				t.Errorf("the SBOM does not list %s", module)
			}
		}
		expectLicenses(t, modules, filepath.Join(sources, "bin/THIRD_PARTY_LICENSES"))
	}
	if digests[0] != digests[1] {
		t.Errorf("the digests are %s and %s, want equal ones", digests[0], digests[1])
	}
}

// modulesOf maps the paths of the modules in an SBOM to their versions. The path std stands for Go.
func modulesOf(t *testing.T, sbom string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for _, c := range document.Components {
		modules[c.Name] = c.Version
	}
	return modules
}

// expectLicenses checks that a file has a license of Go and of each module that is not of this repository.
func expectLicenses(t *testing.T, modules map[string]string, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 10 || modules["std"] == "" {
		t.Errorf("the SBOM lists only %d modules, or not the standard library", len(modules))
	}
	// The modules whose licenses are in the file. The files of a license stand above a line with its name.
	licensed := map[string]bool{}
	for section := range strings.SplitSeq(string(content), strings.Repeat("=", 80)) {
		files, _, found := strings.Cut(section, "\nLicense: ")
		for line := range strings.Lines(files) {
			if name := strings.Fields(line); found && len(name) > 1 {
				licensed[name[0]+" "+name[1]] = true
			}
		}
	}
	for module, version := range modules {
		name := module + " " + version
		if module == "std" {
			name = "Go LICENSE"
		}
		if !strings.HasPrefix(module, "tensorstack.dev/jobs/") && !licensed[name] {
			t.Errorf("%s has no license of %s", file, name)
		}
	}
}
