package localcluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The examples of a framework must use the training image of that framework with the version that is built.
func TestExamplesRunTrainingImages(t *testing.T) {
	repo, err := FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	imageLine := regexp.MustCompile(`(?m)^ *image: (tensorstack/.*-example:.*)$`)
	for _, image := range trainingImages {
		if image.Name != "" {
			continue // no example uses this image
		}
		t.Run(image.Framework, func(t *testing.T) {
			manifests, err := filepath.Glob(filepath.Join(repo, "examples", image.Framework, "*.yaml"))
			if err != nil || len(manifests) == 0 {
				t.Fatalf("manifests %v, error %v", manifests, err)
			}
			for _, manifest := range manifests {
				content, err := os.ReadFile(manifest)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range imageLine.FindAllStringSubmatch(string(content), -1) {
					if match[1] != image.tag() {
						t.Errorf("%s uses the image %s, but %s is built", manifest, match[1], image.tag())
					}
				}
			}
		})
	}
}

// Each input of an image must be part of its key.
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

func TestRemoveOthersKeepsOtherImages(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{
		"pytorch-example-1.tar", "pytorch-example-2.tar", "tensorflow-example-1.tar", "pytorch-example-1.tar.lock",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	removeOthers(filepath.Join(dir, "pytorch-example-2.tar"), trainingImage{Framework: "pytorch"}.name()+"-*.tar")

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	want := []string{"pytorch-example-1.tar.lock", "pytorch-example-2.tar", "tensorflow-example-1.tar"}
	if !slices.Equal(files, want) {
		t.Errorf("the cache has %v, want %v", files, want)
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
	want := `there is no training image for "torch", only for pytorch, tensorflow, deepspeed, tensorboard`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
