package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	imageName = "pytorch-controller:test"
	content   = "static binary"
)

// packed builds an image of a new copy of the binary and reads it back.
func packed(t *testing.T, content, arch string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	binary, output := filepath.Join(dir, "pytorch-controller"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(binary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build(binary, imageName, output, arch); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	// Under its name and no other.
	tag, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(output) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{imageName}, tag[0].RepoTags); diff != "" {
		t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
	image, err := tarball.ImageFromPath(output, nil)
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

func TestImageRunsTheBinaryAsNobody(t *testing.T) {
	t.Parallel()
	file, err := packed(t, content, "arm64").ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/pytorch-controller"}}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("unexpected configuration (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("linux/arm64", file.OS+"/"+file.Architecture); diff != "" {
		t.Errorf("unexpected platform (-want +got):\n%s", diff)
	}
}

func TestImageHoldsTheBinaryAlone(t *testing.T) {
	t.Parallel()
	layers, err := packed(t, content, "amd64").Layers()
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
	// It can be executed, whatever the mode that it was found with, and nobody but root may change it.
	want := []file{{Name: "pytorch-controller", Content: content, Mode: 0o755, ModTime: time.Unix(0, 0).UTC()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
}

func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	once, again := digest(t, packed(t, content, "amd64")), digest(t, packed(t, content, "amd64"))
	if once != again {
		t.Errorf("the same binary makes %s and %s", once, again)
	}
	if other := digest(t, packed(t, "another binary", "amd64")); other == once {
		t.Errorf("another binary makes %s too", other)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary := filepath.Join(dir, "controller")
	if err := os.WriteFile(binary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ binary, imageName, output string }{
		"a binary that is not there":   {filepath.Join(dir, "none"), imageName, filepath.Join(dir, "a.tar")},
		"a name that is none":          {binary, "Not A Name", filepath.Join(dir, "b.tar")},
		"an output that has no folder": {binary, imageName, filepath.Join(dir, "none", "c.tar")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := build(tc.binary, tc.imageName, tc.output, "amd64"); err == nil {
				t.Error("no error")
			}
		})
	}
}
