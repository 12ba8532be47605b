package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/tree"
)

// root is the root of the repository.
const root = "../.."

// TestImageBuildsAreReproducible builds an image in two folders with different settings of Go. The digests must be
// equal, so that everybody can verify a release by building it again.
func TestImageBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	var digests [2]string
	for i, folder := range []string{"here", "somewhere/else"} {
		builder := [][]string{nil, {"GOFLAGS=-tags=else", "GOAMD64=v3", "GOARM64=v9.0", "GOEXPERIMENT=jsonv2"}}[i]
		sources := filepath.Join(t.TempDir(), folder)
		tree.Copy(t, root, sources, "common", "pytorch", "hack", "versions.yaml", "Dockerfile")
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

		sbom, err := os.ReadFile(filepath.Join(sources, "bin/sbom.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range []string{"tensorstack.dev/jobs/common@v", "sigs.k8s.io/controller-runtime@v"} {
			if !strings.Contains(string(sbom), `"purl": "pkg:golang/`+module) {
				t.Errorf("the SBOM does not list %s", module)
			}
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("the digests are %s and %s, want equal ones", digests[0], digests[1])
	}
}

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
