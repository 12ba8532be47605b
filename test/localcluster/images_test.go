package localcluster

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	base, extra, archive := filepath.Join(dir, "base.tar"), filepath.Join(dir, "extra.tar"), filepath.Join(dir, "image.tar")
	if err := writeTar(base, file{name: "bin/", mode: 0o755}, file{name: "bin/hi", mode: 0o755, data: []byte("hi")}); err != nil {
		t.Fatal(err)
	}
	if err := writeTar(extra, file{name: "bin/hello", link: "hi"}); err != nil {
		t.Fatal(err)
	}
	if err := writeImage(archive, "example/hi:1", v1.Config{User: "1:1", Entrypoint: []string{"/bin/hi"}}, base, extra); err != nil {
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
		t.Errorf("config %+v", cf)
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
		t.Errorf("contents %v", found)
	}
	if exists(archive + ".tmp") {
		t.Error("a temporary file is left")
	}
}

func TestEqualLayersAreEqual(t *testing.T) {
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
		t.Errorf("%v and %v differ", hashes[0], hashes[1])
	}
}
