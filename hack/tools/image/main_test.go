package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	imageName = "tensorstack/pytorch-controller:v0.1.0"
	content   = "static binary"
)

// folder returns a new folder with the files that hack/build.sh writes.
func folder(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"pytorch-controller": content, "sbom.cdx.json": "{}", "LICENSE": "Apache-2.0", "THIRD_PARTY_LICENSES": "MIT",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// built builds an image for the platforms. For each platform, it packs a new folder with the given content as the
// binary.
func built(t *testing.T, content string, platforms ...string) (options, v1.Hash) {
	t.Helper()
	dir := t.TempDir()
	o := options{
		name: imageName, revision: "1cc8f15", layout: filepath.Join(dir, "image.oci"),
		archive: filepath.Join(dir, "image.tar"),
	}
	for _, p := range platforms {
		o.folders = append(o.folders, p+"="+folder(t, content))
	}
	digest, err := build(o)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return o, digest
}

// packed builds an image and reads it back from the OCI layout.
func packed(t *testing.T, content, platform string) v1.Image {
	t.Helper()
	o, digest := built(t, content, platform)
	written, err := layout.FromPath(o.layout)
	if err != nil {
		t.Fatal(err)
	}
	image, err := written.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digest(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestImageRunsTheBinaryAsANonRootUser(t *testing.T) {
	t.Parallel()
	file, err := packed(t, content, "linux/arm64").ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/pytorch-controller"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "pytorch-controller",
			"org.opencontainers.image.version":  "v0.1.0",
			"org.opencontainers.image.revision": "1cc8f15",
			"org.opencontainers.image.source":   "https://tensorstack.dev/jobs",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("unexpected configuration (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("linux/arm64", file.OS+"/"+file.Architecture); diff != "" {
		t.Errorf("unexpected platform (-want +got):\n%s", diff)
	}
}

func TestImageContainsTheBinaryAndItsSBOM(t *testing.T) {
	t.Parallel()
	layers, err := packed(t, content, "linux/amd64").Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(layers))
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()

	type file struct {
		Name, Content string
		Mode          int64
		ModTime       time.Time
		UID, GID      int
	}
	var got []file
	archive := tar.NewReader(layer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, file{header.Name, string(held), header.Mode, header.ModTime.UTC(), header.Uid, header.Gid})
	}
	// The binary is executable, whatever its mode in the folder, and only root can change the files.
	want := []file{
		{Name: "LICENSE", Content: "Apache-2.0", Mode: 0o644, ModTime: time.Unix(0, 0).UTC()},
		{Name: "THIRD_PARTY_LICENSES", Content: "MIT", Mode: 0o644, ModTime: time.Unix(0, 0).UTC()},
		{Name: "pytorch-controller", Content: content, Mode: 0o755, ModTime: time.Unix(0, 0).UTC()},
		{Name: "sbom.cdx.json", Content: "{}", Mode: 0o644, ModTime: time.Unix(0, 0).UTC()},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
}

func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	once, again := digest(t, packed(t, content, "linux/amd64")), digest(t, packed(t, content, "linux/amd64"))
	if once != again {
		t.Errorf("the same binary gives the digests %s and %s", once, again)
	}
	if other := digest(t, packed(t, "another binary", "linux/amd64")); other == once {
		t.Errorf("another binary gives the same digest %s", other)
	}
}

func TestImageOfSeveralPlatformsIsAnIndex(t *testing.T) {
	t.Parallel()
	o, digest := built(t, content, "linux/amd64", "linux/arm64")
	written, err := layout.FromPath(o.layout)
	if err != nil {
		t.Fatal(err)
	}
	root, err := written.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Errorf("unexpected platforms (-want +got):\n%s", diff)
	}
	if _, again := built(t, content, "linux/amd64", "linux/arm64"); again != digest {
		t.Errorf("the same binaries give the digests %s and %s", digest, again)
	}
}

func TestArchiveHasTheImageOfThisPlatform(t *testing.T) {
	t.Parallel()
	o, _ := built(t, content, "linux/s390x", "linux/"+runtime.GOARCH)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(o.archive) })
	if err != nil {
		t.Fatal(err)
	}
	// The image in the archive has imageName as its only tag.
	if diff := cmp.Diff([]string{imageName}, manifest[0].RepoTags); diff != "" {
		t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
	image, err := tarball.ImageFromPath(o.archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("linux/"+runtime.GOARCH, config.OS+"/"+config.Architecture); diff != "" {
		t.Errorf("unexpected platform (-want +got):\n%s", diff)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*options){
		"a folder that does not exist": func(o *options) {
			o.folders = []string{
				"linux/amd64=" + filepath.Join(o.layout, "none"),
			}
		},
		"a folder without a platform":   func(o *options) { o.folders = []string{folder(t, content)} },
		"a folder without the binary":   func(o *options) { o.name = "tensorstack/tensorflow-controller:v0.1.0" },
		"an invalid name":               func(o *options) { o.name = "Not A Name" },
		"an archive without its folder": func(o *options) { o.archive = filepath.Join(o.archive, "none", "c.tar") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := options{
				name: imageName, layout: filepath.Join(dir, "image.oci"), archive: filepath.Join(dir, "image.tar"),
				folders: []string{"linux/" + runtime.GOARCH + "=" + folder(t, content)},
			}
			change(&o)
			if _, err := build(o); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
}
