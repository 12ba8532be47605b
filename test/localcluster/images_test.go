package localcluster

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	base, extra := filepath.Join(dir, "base.tar"), filepath.Join(dir, "extra.tar")
	archive := filepath.Join(dir, "image.tar")
	if err := writeTar(base, file{name: "bin/", mode: 0o755},
		file{name: "bin/hi", mode: 0o755, data: []byte("hi")}); err != nil {
		t.Fatal(err)
	}
	if err := writeTar(extra, file{name: "bin/hello", link: "hi"}); err != nil {
		t.Fatal(err)
	}
	if err := writeImage(archive, "example/hi:1", v1.Config{User: "1:1", Entrypoint: []string{"/bin/hi"}}, base,
		extra); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cf.OS != "linux" || cf.Config.User != "1:1" || len(cf.RootFS.DiffIDs) != 2 {
		t.Errorf("unexpected config %+v", cf)
	}
	found := map[string]string{}
	contents := mutate.Extract(img)
	defer contents.Close()
	for r := tar.NewReader(contents); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h.Linkname + string(data)
	}
	if found["bin/hi"] != "hi" || found["bin/hello"] != "hi" {
		t.Errorf("unexpected contents %v", found)
	}
	if exists(archive + ".tmp") {
		t.Error("a temporary file was not removed")
	}
}

func TestComponentImage(t *testing.T) {
	repo, err := FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Repo: repo, Paths: Paths{Cache: t.TempDir()}, Progress: NewProgress(io.Discard)}
	c, err := b.component("versitygw")
	if err != nil {
		t.Fatal(err)
	}
	// With this binary in the cache, componentImage does not build the program.
	if err := errors.Join(os.MkdirAll(c.out, 0o755), os.MkdirAll(b.Paths.cache("images"), 0o755),
		os.WriteFile(filepath.Join(c.out, "versitygw"), []byte("program"), 0o755)); err != nil {
		t.Fatal(err)
	}
	tag, path, err := b.componentImage(t.Context(), "versitygw")
	if err != nil {
		t.Fatal(err)
	}
	if want := "tensorstack/versitygw:" + strings.TrimPrefix(c.version, "v"); tag != want {
		t.Errorf("the image is named %s, want %s", tag, want)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cf.Config.Entrypoint, []string{"/versitygw"}) || cf.Config.User != "65532:65532" {
		t.Errorf("unexpected config %+v", cf.Config)
	}
	if files, _ := filepath.Glob(path + ".*"); !slices.Equal(files, []string{path + ".lock"}) {
		t.Errorf("unexpected files next to the image: %v", files)
	}
	_, _, err = b.componentImage(t.Context(), "kubernetes")
	if want := `component "kubernetes" has 6 programs, but an image needs exactly one`; err == nil ||
		err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestEqualLayersHaveEqualDigests(t *testing.T) {
	dir := t.TempDir()
	var hashes []v1.Hash
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		if err := writeTar(path, file{name: "f", mode: 0o644, data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		layer, err := newTarLayer(path)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, layer.hash)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("layers with equal files have the digests %v and %v", hashes[0], hashes[1])
	}
}
