package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// versions are what versions.yaml says that is said elsewhere, too.
type versions struct {
	Modules    map[string]modulePins           `json:"modules"`
	Kubernetes struct{ Oldest, Newest string } `json:"kubernetes"`
}

func readVersions(t *testing.T) versions {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "versions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var v versions
	if err := yaml.Unmarshal(content, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type modulePins struct {
	Version string `json:"version"`
	Common  string `json:"common,omitempty"`
	Kit     string `json:"kit,omitempty"`
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
	got := map[string]modulePins{}
	for _, file := range files {
		module := filepath.Base(filepath.Dir(file))
		var says modulePins
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
		if _, err := os.Stat(filepath.Join(root, module, "config/manager")); err != nil {
			continue
		}
		image := regexp.MustCompile(`(?m)^ *image: tensorstack/` + module + `-controller:(\S+)$`)
		if tag := image.FindSubmatch(read(module, "config/manager/deployment.yaml")); tag == nil || string(tag[1]) != want[module].Version {
			t.Errorf("the image of %s is %q, want version %s", module, tag, want[module].Version)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the modules say something else (-versions.yaml +modules):\n%s", diff)
	}
}

// A library of another version is compiled again, with all that imports it, and controllers are tested with other libraries than they ship.
func TestLibrariesOfKubernetesHaveOneVersion(t *testing.T) {
	t.Parallel()
	want := requirements(t, filepath.Join(components, "kubernetes"))
	modules, err := filepath.Glob(filepath.Join(root, "*/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{"hack/tools", filepath.Join(components, "coredns"), filepath.Join(components, "etcd")}
	for _, module := range modules {
		folders = append(folders, filepath.Base(filepath.Dir(module)))
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
			t.Errorf("%s has other versions than %s/kubernetes. If they are newer, update that first. Then: cd %s && GOWORK=off go get %s",
				folder, components, folder, strings.Join(updates, " "))
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
		if version := requirements(t, filepath.Join(components, filepath.Base(component)))["k8s.io/kubernetes"]; version != "" {
			tested = append(tested, semver.MajorMinor(version))
		}
	}
	slices.SortFunc(tested, semver.Compare)
	got := want
	got.Oldest, got.Newest = strings.TrimPrefix(tested[0], "v"), strings.TrimPrefix(tested[len(tested)-1], "v")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions.yaml does not name the oldest and the newest Kubernetes of test/localcluster/components (-versions.yaml +components):\n%s", diff)
	}

	document, err := os.ReadFile(filepath.Join(folder, "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	if promise := "Kubernetes " + want.Oldest + " to " + want.Newest; !strings.Contains(string(document), promise) {
		t.Errorf("docs/upgrading.md does not promise %s", promise)
	}
}
