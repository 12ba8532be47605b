package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/internal/tree"
)

// TestANewFrameworkBuildsAndConforms creates a framework from the template, and builds and tests it. Go does not
// compile templates, so no other test notices when the template no longer fits the code that it uses.
func TestANewFrameworkBuildsAndConforms(t *testing.T) {
	t.Parallel()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	tree.Copy(t, root, folder, "versions.yaml", "go.work.sum", "cli/go.mod", "tensorflow/go.mod", "tensorflow/go.sum")
	workspace, replaced := "go 1.26.0\n\nuse ./example\n", "replace (\n"
	registry := readVersions(t)
	for _, library := range registry.Names(modules.Library) {
		workspace += fmt.Sprintf("use %s/%s\n", repository, library)
		replaced += fmt.Sprintf("tensorstack.dev/jobs/%[2]s %[3]s => %[1]s/%[2]s\n",
			repository, library, registry.Modules[library].Version)
	}
	workspace += replaced + ")\n"
	if err := os.WriteFile(filepath.Join(folder, "go.work"), []byte(workspace), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ folder, command string }{
		{filepath.Join(root, "hack/tools"), "GOWORK=off go run ./newframework -root $FOLDER -name example"},
		{filepath.Join(root, "hack/tools"), "GOWORK=off go build -o $FOLDER sigs.k8s.io/controller-tools/cmd/controller-gen"},
		{filepath.Join(folder, "example"), "$FOLDER/controller-gen object crd paths=./api/... output:crd:dir=config/crd"},
		{filepath.Join(folder, "example"), "touch config/controller.yaml"}, // `make generate` would write this file
		{filepath.Join(folder, "example"), "go vet ./..."},
		{filepath.Join(folder, "example"), "go test -short -run 'Conformance|Replica|Template' ."},
	} {
		command := exec.CommandContext(t.Context(), "bash", "-c", step.command)
		command.Dir = step.folder
		command.Env = append(os.Environ(), "FOLDER="+folder)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.command, err, output)
		}
	}
}
