package repository

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/modules"
)

// testLibraries are the libraries that only tests may import. A go.mod file does not show who imports a library,
// because it lists the requirements of tests and of other code together.
var testLibraries = []string{
	"github.com/google/go-cmp", "github.com/onsi/ginkgo", "github.com/onsi/gomega", "pgregory.net/rapid",
	"sigs.k8s.io/controller-runtime/pkg/envtest",
	"tensorstack.dev/jobs/common/internal/jobtest", "tensorstack.dev/jobs/common/listen/listentest",
	"tensorstack.dev/jobs/kit",
}

// listedPackage is a package in the output of go list.
type listedPackage struct {
	ImportPath string
	// Deps are all direct and indirect imports of the package. TestImports and XTestImports are the direct imports of its
	// tests.
	Deps, TestImports, XTestImports []string
}

// imports reports whether the packages contain a package of the library.
func imports(packages []string, library string) bool {
	return slices.ContainsFunc(packages, func(path string) bool {
		return path == library || strings.HasPrefix(path, library+"/")
	})
}

// list returns the packages of common and of the modules of all controllers and clients.
func list(t *testing.T) []listedPackage {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Deps,TestImports,XTestImports", "./common/..."}
	for _, module := range readVersions(t).Names(modules.Framework, modules.Controller, modules.Client) {
		args = append(args, "./"+module+"/...")
	}
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = filepath.Join("..", "..")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var listed []listedPackage
	for decoder := json.NewDecoder(output); ; {
		var p listedPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, p)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	return listed
}

func TestNoProgramImportsATestLibrary(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range list(t) {
		if strings.HasSuffix(p.ImportPath, "/internal/jobtest") || strings.Contains(p.ImportPath, "/test/") {
			continue // the package is for tests
		}
		found++
		for _, library := range testLibraries {
			if imports(p.Deps, library) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, library)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d packages, want at least 20", found)
	}
}

// TestCommonDoesNotImportTheKit finds packages of common whose code or tests import the kit. The kit requires common.
// If common also required the kit, neither could be released first.
func TestCommonDoesNotImportTheKit(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if !strings.HasPrefix(p.ImportPath, "tensorstack.dev/jobs/common/") {
			continue
		}
		if imports(slices.Concat(p.Deps, p.TestImports, p.XTestImports), "tensorstack.dev/jobs/kit") {
			t.Errorf("%s imports the kit", p.ImportPath)
		}
	}
}
