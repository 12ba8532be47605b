package localcluster

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func write(t *testing.T, content string, elem ...string) {
	t.Helper()
	path := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inode returns the inode number of a file.
func inode(t *testing.T, elem ...string) uint64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestNewClusterHasTheImagesOfTheCache(t *testing.T) {
	t.Parallel()
	folder := t.TempDir() // hard links are possible only within a file system
	c := New("", DefaultKubernetes, Paths{Cache: filepath.Join(folder, "cache"), State: filepath.Join(folder, "state")},
		NewProgress(io.Discard))
	if err := os.Mkdir(c.Paths.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.linkImages(t.Context()); err != nil || exists(c.Paths.state("containerd")) {
		t.Fatalf("without images in the cache: error %v, store %t", err, exists(c.Paths.state("containerd")))
	}
	write(t, "layer", c.Paths.imageStore("root", "content", "blobs", "layer"))
	write(t, "names", c.Paths.imageStore("root", "metadata", "meta.db"))
	write(t, "", c.Paths.imageStore(unpackedMarks, "image.tar"))
	if err := c.linkImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !exists(c.Paths.state("containerd", unpackedMarks, "image.tar")) {
		t.Error("the store of the cluster has no mark for the image")
	}
	if inode(t, c.Paths.state("containerd/root/content/blobs/layer")) != inode(t,
		c.Paths.imageStore("root/content/blobs/layer")) {
		t.Error("a layer was copied instead of linked")
	}
	write(t, "changed", c.Paths.state("containerd/root/metadata/meta.db"))
	if content, err := os.ReadFile(c.Paths.imageStore("root/metadata/meta.db")); err != nil || string(content) != "names" {
		t.Errorf("the cluster changed the database of the cache to %q (%v)", content, err)
	}
	if err := c.linkImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(c.Paths.state("containerd/root/metadata/meta.db")); err != nil ||
		string(content) != "changed" {
		t.Errorf("the store was linked again: the database of the cluster is %q (%v)", content, err)
	}
}
