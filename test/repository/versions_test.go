package repository

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"tensorstack.dev/jobs/test/internal/modules"
)

// readVersions reads versions.yaml.
func readVersions(t *testing.T) modules.File {
	t.Helper()
	file, err := modules.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// components is the folder with the modules that pin the programs of the local cluster.
const components = "test/localcluster/components"

// heading matches the heading of a version in a changelog.
var heading = regexp.MustCompile(`(?m)^## (v\S+) \(([^)]+)\)$`)

// TestVersionsMatchTheModules compares versions.yaml with the changelogs, go.mod files and kustomizations of the
// modules.
func TestVersionsMatchTheModules(t *testing.T) {
	t.Parallel()
	read := func(elem ...string) []byte {
		content, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	want := readVersions(t).Modules
	files, err := filepath.Glob(filepath.Join(root, "*/CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]modules.Module{}
	for _, file := range files {
		module := filepath.Base(filepath.Dir(file))
		found := modules.Module{Role: want[module].Role} // only versions.yaml has the role
		// The first heading can be the next version, which is unreleased. The released version follows.
		for _, h := range heading.FindAllSubmatch(read(module, "CHANGELOG.md"), -1) {
			found.Version = string(h[1])
			if string(h[2]) != "unreleased" {
				break
			}
		}
		found.Requires = map[string]string{}
		for path, version := range requirements(t, module) {
			if required, ok := strings.CutPrefix(path, "tensorstack.dev/jobs/"); ok {
				found.Requires[required] = version
			}
		}
		got[module] = found
		if _, err := os.Stat(filepath.Join(root, module, "config/controller")); err != nil {
			continue
		}
		image := "{name: controller, newName: tensorstack/" + module + "-controller, newTag: " + want[module].Version + "}\n"
		if !bytes.Contains(read(module, "config/controller/kustomization.yaml"), []byte(image)) {
			t.Errorf("the kustomization of %s does not name the image of version %s", module, want[module].Version)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the modules do not match versions.yaml (-versions.yaml +modules):\n%s", diff)
	}
}

// TestModulesScriptPrintsTheModules checks hack/modules.sh, with which the Makefile and the scripts read versions.yaml.
func TestModulesScriptPrintsTheModules(t *testing.T) {
	t.Parallel()
	program := filepath.Join(root, "hack/modules.sh")
	for _, roles := range [][]string{
		{modules.Library},
		{modules.Framework},
		{modules.Controller},
		{modules.Client},
		{modules.Framework, modules.Controller},
		{},
	} {
		output, err := exec.CommandContext(t.Context(), program, roles...).Output() // no role means all modules
		if err != nil {
			t.Fatal(err)
		}
		printed := strings.Fields(string(output))
		slices.Sort(printed)
		if diff := cmp.Diff(readVersions(t).Names(roles...), printed); diff != "" {
			t.Errorf("hack/modules.sh %q does not print the modules of versions.yaml (-want +got):\n%s", roles, diff)
		}
	}
	if output, err := exec.CommandContext(t.Context(), program, "framwork").Output(); err == nil {
		t.Errorf("hack/modules.sh prints %q for an unknown role, want an error", output)
	}
}

// TestLibrariesOfKubernetesHaveOneVersion compares the requirements of all modules with the Kubernetes that the tests
// run. If a library had two versions, Go would compile the library and its importers twice, and the tests would run
// the controllers with other libraries than the shipped ones.
func TestLibrariesOfKubernetesHaveOneVersion(t *testing.T) {
	t.Parallel()
	want := requirements(t, filepath.Join(components, "kubernetes"))
	files, err := filepath.Glob(filepath.Join(root, "*/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{"hack/tools", filepath.Join(components, "coredns"), filepath.Join(components, "etcd")}
	for _, file := range files {
		folders = append(folders, filepath.Base(filepath.Dir(file)))
	}
	for _, folder := range folders {
		var updates []string
		for path, version := range requirements(t, folder) {
			// Kubernetes requires its own modules as v0.0.0, so their versions are not compared.
			if newest := want[path]; newest != "" && newest != version && !strings.HasPrefix(path, "k8s.io/") {
				updates = append(updates, path+"@"+newest)
			}
		}
		if slices.Sort(updates); len(updates) > 0 {
			t.Errorf("%[1]s and %[2]s/kubernetes require different versions. If %[1]s has newer ones, update "+
				"%[2]s/kubernetes first. Then run: cd %[1]s && GOWORK=off go get %[3]s",
				folder, components, strings.Join(updates, " "))
		}
	}
}

// requirements returns the modules that the go.mod of a folder requires. It maps their paths to the required
// versions.
func requirements(t *testing.T, folder string) map[string]string {
	t.Helper()
	file := filepath.Join(root, folder, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range module.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

// TestKubernetesVersionsAreTested checks that versions.yaml has the oldest and the newest Kubernetes that the tests run
// on, and that docs/operate/upgrading.md promises the same versions.
func TestKubernetesVersionsAreTested(t *testing.T) {
	t.Parallel()
	want := readVersions(t).Kubernetes
	folders, err := filepath.Glob(filepath.Join(root, components, "kubernetes*"))
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, component := range folders {
		required := requirements(t, filepath.Join(components, filepath.Base(component)))
		if version := required["k8s.io/kubernetes"]; version != "" {
			tested = append(tested, semver.MajorMinor(version))
		}
	}
	slices.SortFunc(tested, semver.Compare)
	got := want
	got.Oldest, got.Newest = strings.TrimPrefix(tested[0], "v"), strings.TrimPrefix(tested[len(tested)-1], "v")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions.yaml does not have the oldest and the newest Kubernetes of %s (-versions.yaml +components):\n%s",
			components, diff)
	}

	document, err := os.ReadFile(filepath.Join(folder, "operate", "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	if promise := "Kubernetes " + want.Oldest + " to " + want.Newest; !strings.Contains(string(document), promise) {
		t.Errorf("docs/operate/upgrading.md does not contain %q", promise)
	}
}
