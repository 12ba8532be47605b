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

// readVersions returns what versions.yaml says.
func readVersions(t *testing.T) modules.File {
	t.Helper()
	file, err := modules.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// components is the folder with the modules of the local cluster's programs.
const components = "test/localcluster/components"

// heading is that of a version in a changelog.
var heading = regexp.MustCompile(`(?m)^## (v\S+) \(([^)]+)\)$`)

// versions.yaml is where everybody looks; nothing else may say something else.
func TestVersionsAreWhatTheModulesSay(t *testing.T) {
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
		says := modules.Module{Role: want[module].Role} // which only versions.yaml says
		// The next version may be there already; what is released comes after it.
		for _, h := range heading.FindAllSubmatch(read(module, "CHANGELOG.md"), -1) {
			says.Version = string(h[1])
			if string(h[2]) != "unreleased" {
				break
			}
		}
		required := requirements(t, module)
		says.Common, says.Kit = required["tensorstack.dev/jobs/common"], required["tensorstack.dev/jobs/kit"]
		got[module] = says
		if _, err := os.Stat(filepath.Join(root, module, "config/controller")); err != nil {
			continue
		}
		image := "{name: controller, newName: tensorstack/" + module + "-controller, newTag: " + want[module].Version + "}\n"
		if !bytes.Contains(read(module, "config/controller/kustomization.yaml"), []byte(image)) {
			t.Errorf("the kustomization of %s does not name the image of version %s", module, want[module].Version)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the modules say something else (-versions.yaml +modules):\n%s", diff)
	}
}

// The Makefile and the scripts read the modules by a program of their own.
func TestScriptsSeeTheModules(t *testing.T) {
	t.Parallel()
	program := filepath.Join(root, "hack/modules.sh")
	for _, roles := range [][]string{
		{modules.Library}, {modules.Framework}, {modules.Controller}, {modules.Framework, modules.Controller},
	} {
		output, err := exec.CommandContext(t.Context(), program, roles...).Output()
		if err != nil {
			t.Fatal(err)
		}
		printed := strings.Fields(string(output))
		slices.Sort(printed)
		if diff := cmp.Diff(readVersions(t).Names(roles...), printed); diff != "" {
			t.Errorf("hack/modules.sh %q prints others than versions.yaml has (-want +got):\n%s", roles, diff)
		}
	}
	if output, err := exec.CommandContext(t.Context(), program, "framwork").Output(); err == nil {
		t.Errorf("it prints %q for a role that there is not", output)
	}
}

// A library of another version is compiled again, with all that imports it, and controllers are tested with other
// libraries than they ship.
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
			// Kubernetes itself requires its own modules by no version.
			if newest := want[path]; newest != "" && newest != version && !strings.HasPrefix(path, "k8s.io/") {
				updates = append(updates, path+"@"+newest)
			}
		}
		if slices.Sort(updates); len(updates) > 0 {
			t.Errorf(
				"%s has other versions than %s/kubernetes. If they are newer, update that first. Then: cd %s && GOWORK=off go get %s",
				folder,
				components,
				folder,
				strings.Join(updates, " "),
			)
		}
	}
}

// requirements returns the versions that the go.mod of a folder requires, by module.
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

// The tests run on what components/ has, and the documents promise what versions.yaml says.
func TestKubernetesVersionsAreThoseThatAreTested(t *testing.T) {
	t.Parallel()
	want := readVersions(t).Kubernetes
	folders, err := filepath.Glob(filepath.Join(root, components, "kubernetes*"))
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, component := range folders {
		if version := requirements(t,
			filepath.Join(components, filepath.Base(component)))["k8s.io/kubernetes"]; version != "" {
			tested = append(tested, semver.MajorMinor(version))
		}
	}
	slices.SortFunc(tested, semver.Compare)
	got := want
	got.Oldest, got.Newest = strings.TrimPrefix(tested[0], "v"), strings.TrimPrefix(tested[len(tested)-1], "v")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(
			"versions.yaml does not name the oldest and the newest Kubernetes of test/localcluster/components (-versions.yaml +components):\n%s",
			diff,
		)
	}

	document, err := os.ReadFile(filepath.Join(folder, "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	if promise := "Kubernetes " + want.Oldest + " to " + want.Newest; !strings.Contains(string(document), promise) {
		t.Errorf("docs/upgrading.md does not promise %s", promise)
	}
}
