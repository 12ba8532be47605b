package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the root of the repository.
const root = "../.."

// TestDockerfilePinsImagesByDigest checks that base images have a version and a digest. A tag can be moved to another
// image, but a digest cannot. hack/build.sh reads the version of Go from the tag.
func TestDockerfilePinsImagesByDigest(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var unpinned []string
	pinned := regexp.MustCompile(`^\S+:\d+\.\d+\.\d+@sha256:[0-9a-f]{64}$`)
	from := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`)
	for _, image := range from.FindAllStringSubmatch(string(dockerfile), -1) {
		if image[1] != "scratch" && image[1] != "$MODULE" && !pinned.MatchString(image[1]) {
			unpinned = append(unpinned, image[1])
		}
	}
	if diff := cmp.Diff([]string(nil), unpinned); diff != "" {
		t.Errorf("images without a version or a digest (-want +got):\n%s", diff)
	}
}

// TestDockerfileBuildsWhatMakeImagesBuilds compares the Dockerfile with the scripts of `make images`. Both must build
// the same image.
func TestDockerfileBuildsWhatMakeImagesBuilds(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := os.ReadFile(filepath.Join(root, "hack/images.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for file, command := range map[string]string{
		string(dockerfile): "RUN GOOS=$TARGETOS GOARCH=$TARGETARCH hack/build.sh $MODULE /image\n",
		string(images):     "GOOS=${platform%%/*} GOARCH=${platform#*/} hack/build.sh \"$module\" \"$folder\"\n",
	} {
		if !strings.Contains(file, command) || strings.Contains(file, "go build") {
			t.Errorf("want %q and no other build command in\n%s", command, file)
		}
	}
	for _, module := range readVersions(t).Controllers() {
		stage := "FROM scratch AS " + module + "\nENTRYPOINT [\"/" + module + "-controller\"]\n"
		if !strings.Contains(string(dockerfile), stage) {
			t.Errorf("the Dockerfile has no stage for %s", module)
		}
	}
	packed, err := os.ReadFile(filepath.Join(root, "hack/tools/image/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	labels := regexp.MustCompile(`"org\.opencontainers\.image\.[a-z]+"`).FindAllString(string(packed), -1)
	for _, label := range labels {
		if label = strings.Trim(label, `"`) + "="; !strings.Contains(string(dockerfile), label) {
			t.Errorf("the Dockerfile does not set the label %s", label)
		}
	}
	if settings := "WORKDIR /\nUSER 65532:65532\n"; !strings.HasSuffix(string(dockerfile), settings) {
		t.Errorf("the Dockerfile does not end with\n%s", settings)
	}
}
