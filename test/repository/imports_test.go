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
)

// testLibraries are what only tests import. A go.mod does not show who imports them, since that of controller-runtime
// requires Ginkgo, too.
var testLibraries = []string{
	"github.com/google/go-cmp", "github.com/onsi/ginkgo", "github.com/onsi/gomega", "pgregory.net/rapid",
	"sigs.k8s.io/controller-runtime/pkg/envtest",
	"tensorstack.dev/jobs/common/internal/jobtest", "tensorstack.dev/jobs/common/listen/listentest",
	"tensorstack.dev/jobs/kit",
}

// listedPackage is a package as go list prints it.
type listedPackage struct {
	ImportPath string
	// Deps are all packages that it imports, also indirectly. The others are those that its tests import.
	Deps, TestImports, XTestImports []string
}

// imports reports whether one of the packages belongs to a library.
func imports(packages []string, library string) bool {
	return slices.ContainsFunc(packages, func(path string) bool {
		return path == library || strings.HasPrefix(path, library+"/")
	})
}

// list returns the packages of the modules whose controllers users run, and of common.
func list(t *testing.T) []listedPackage {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Deps,TestImports,XTestImports", "./common/..."}
	for _, controller := range readVersions(t).Controllers() {
		args = append(args, "./"+controller+"/...")
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

func TestNoControllerImportsATestLibrary(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range list(t) {
		if strings.HasSuffix(p.ImportPath, "/internal/jobtest") || strings.Contains(p.ImportPath, "/test/") {
			continue // it is for tests
		}
		found++
		for _, library := range testLibraries {
			if imports(p.Deps, library) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, library)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d packages are found", found)
	}
}

// The kit requires common. So the tests of common cannot require the kit, or neither could be released first.
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
