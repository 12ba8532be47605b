package localcluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tensorstack.dev/jobs/test/internal/modules"
)

// The examples of a framework must use a training image of that framework.
func TestExamplesRunTrainingImages(t *testing.T) {
	repo, err := FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	imageLine := regexp.MustCompile(`(?m)^ *image: (tensorstack/.*-example:.*)$`)
	built := map[string][]string{}
	for _, image := range trainingImages {
		if image.Name == "" { // other images are not for examples
			built[image.Framework] = append(built[image.Framework], image.tag())
		}
	}
	// Examples of PyTorch can also use the images for DeepSpeed, because these images have PyTorch too. trainer.yaml
	// uses the one that also has transformers.
	built["pytorch"] = append(built["pytorch"], built["deepspeed"]...)
	for framework, tags := range built {
		t.Run(framework, func(t *testing.T) {
			manifests, err := filepath.Glob(filepath.Join(repo, "examples", framework, "*.yaml"))
			if err != nil || len(manifests) == 0 {
				t.Fatalf("manifests %v, error %v", manifests, err)
			}
			for _, manifest := range manifests {
				content, err := os.ReadFile(manifest)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range imageLine.FindAllStringSubmatch(string(content), -1) {
					if !slices.Contains(tags, match[1]) {
						t.Errorf("%s uses the image %s, but %v are built", manifest, match[1], tags)
					}
				}
			}
		})
	}
}

func TestTrainingImagesHaveTheVersionsThatAreTested(t *testing.T) {
	repo, err := FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := modules.Read(repo)
	if err != nil {
		t.Fatal(err)
	}
	for framework, want := range map[string]modules.Range{"pytorch": versions.PyTorch, "deepspeed": versions.DeepSpeed} {
		var got []string
		for _, image := range trainingImages {
			if image.Framework == framework {
				got = append(got, image.Version)
			}
		}
		if !slices.Equal(got, []string{want.Newest, want.Oldest}) {
			t.Errorf("the versions of the images for %s are %v, but versions.yaml has %+v", framework, got, want)
		}
	}
}

// Each input of an image must be part of the image's key in the cache, so that a changed input results in a new
// build.
func TestTrainingImageKeys(t *testing.T) {
	file := func(image trainingImage) string {
		t.Helper()
		file, err := image.file()
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	image := trainingImage{Framework: "a", Version: "1", Requirements: "x==1 --hash=sha256:0"}
	for input, change := range map[string]func(*trainingImage){
		"the version":         func(i *trainingImage) { i.Version = "2" },
		"the release":         func(i *trainingImage) { i.Debian = trixie },
		"a package of Debian": func(i *trainingImage) { i.Packages = []string{"python3"} },
		"the lock file":       func(i *trainingImage) { i.Requirements = "x==2 --hash=sha256:1" },
		"a stripped pattern":  func(i *trainingImage) { i.Strip = []string{"/usr/include/*"} },
		"the setup script":    func(i *trainingImage) { i.Setup = "true" },
		"a file":              func(i *trainingImage) { i.Files = map[string]string{"bin/x": ""} },
		"a source package":    func(i *trainingImage) { i.Source = &sourcePackage{Name: "y"} },
		"a variable":          func(i *trainingImage) { i.Env = []string{"X=1"} },
		"the framework":       func(i *trainingImage) { i.Framework = "b" },
		"the name":            func(i *trainingImage) { i.Name = "b" },
	} {
		changed := image
		change(&changed)
		if file(changed) == file(image) {
			t.Errorf("the key does not depend on %s", input)
		}
	}
}

func TestRemoveSupersededKeepsCurrentAndOtherImages(t *testing.T) {
	dir := t.TempDir()
	var current []string
	for _, image := range trainingImages {
		file, err := image.file()
		if err != nil {
			t.Fatal(err)
		}
		current = append(current, file)
	}
	old := []string{"pytorch-example-1.tar", "pytorch-example-2.6.0-1.tar"}
	other := []string{"tensorflow-example-1.tar", "pytorch-example-1.tar.lock"}
	for _, file := range slices.Concat(old, other, current) {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeSuperseded(dir, "pytorch-example"); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	want := slices.Sorted(slices.Values(slices.Concat(other, current)))
	if !slices.Equal(files, want) {
		t.Errorf("the cache has %v, want %v", files, want)
	}
}

func TestTrainingImagesOf(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  []string
	}{
		"a name means the newest version": {[]string{"pytorch"}, []string{trainingImages[0].tag()}},
		"a version can be named":          {[]string{"pytorch:1.13.1"}, []string{"tensorstack/pytorch-example:1.13.1"}},
		"an unknown version is refused":   {[]string{"pytorch:9"}, nil},
		"an unknown framework is refused": {[]string{"jax"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			images, err := trainingImagesOf(tc.names)
			var got []string
			for _, image := range images {
				got = append(got, image.tag())
			}
			if !slices.Equal(got, tc.want) || (err != nil) != (tc.want == nil) {
				t.Errorf("got %v and the error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestSourcesFor(t *testing.T) {
	const host = `# snapshot
Types: deb
URIs: http://mirror/debian
Suites: bookworm bookworm-updates

Types: deb
URIs: https://example.org
Suites: stable
`
	want := "# snapshot\nTypes: deb\nURIs: http://mirror/debian\nSuites: trixie trixie-updates\n\n"
	if got := sourcesFor(host, ".sources", "bookworm", "trixie"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	list := "deb http://mirror/debian bookworm main\ndeb https://example.org x-bookworm main\n"
	want = "deb http://mirror/debian trixie main\n"
	if got := sourcesFor(list, ".list", "bookworm", "trixie"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pip does not resolve dependencies, so each lock file must have all of them, with versions and hashes. Source packages
// and their build tools must have versions and hashes too.
func TestTrainingRequirementsAreLocked(t *testing.T) {
	pinned := regexp.MustCompile(`^([a-z0-9.-]+)==([0-9.]+) \\$`)
	pinnedInOneLine := regexp.MustCompile(`^([a-z0-9.-]+)==([0-9.]+) --hash=sha256:[0-9a-f]{64}$`)
	for _, image := range trainingImages {
		versions := map[string]string{}
		var last string
		for line := range strings.Lines(image.Requirements) {
			line = strings.TrimRight(line, "\n")
			match := pinned.FindStringSubmatch(line)
			switch {
			case match != nil:
				last = match[1]
				versions[last] = match[2]
			case line == "" || strings.HasPrefix(strings.TrimSpace(line), "#"):
			case !strings.HasPrefix(line, "    --hash=sha256:") || last == "":
				t.Errorf("%s: %q neither pins a package nor is a hash of a package", image.Framework, line)
			}
		}
		if source := image.Source; source != nil {
			for _, line := range append(source.Tools, source.Requirement) {
				if !pinnedInOneLine.MatchString(line) {
					t.Errorf("%s: %q does not pin a package with a hash", image.Framework, line)
				}
			}
			if match := pinnedInOneLine.FindStringSubmatch(source.Requirement); match != nil && match[1] == source.Name {
				versions[source.Name] = match[2]
			}
		}
		if image.Framework == "pytorch" {
			continue // PyTorch is a package of Debian
		}
		if image.Requirements != "" &&
			!slices.Contains([]string{versions[image.Framework], versions[image.Framework+"-cpu"]}, image.Version) {
			t.Errorf("the lock file for %s %s has the versions %v", image.Framework, image.Version, versions)
		}
	}
}

func TestUnknownTrainingImage(t *testing.T) {
	err := (&Cluster{}).TrainingImages(t.Context(), "pytorch", "torch")
	want := `there is no training image for "torch", only for pytorch:2.6.0, pytorch:1.13.1, tensorflow:2.21.0, ` +
		"deepspeed:0.19.8, deepspeed:0.14.5, tensorboard:2.21.0"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
