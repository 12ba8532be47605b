package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// imageStore returns a path in the image store of the cache. The store belongs to a containerd that runs no
// containers. Large images are unpacked only once, into this store. A new cluster gets a copy of the store with hard
// links to the files. The shared files never change: containerd writes new files for new content, and overlayfs copies
// a file when a container changes it.
func (p Paths) imageStore(elem ...string) string {
	return p.cache(append([]string{"containerd"}, elem...)...)
}

// unpackedMarks is a folder in the store of the cache and in the store of the cluster. It has an empty file for each
// archive that was unpacked into the store.
const unpackedMarks = "unpacked"

// unpack unpacks an archive into the store of the cache, unless this was done before.
func (c *Cluster) unpack(ctx context.Context, archive string) error {
	unlock, err := lockFile(c.Paths.imageStore() + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	mark := c.Paths.imageStore(unpackedMarks, filepath.Base(archive))
	if exists(mark) {
		return nil
	}
	return c.Progress.Step("unpack "+filepath.Base(archive), func() error {
		if err := importInto(ctx, c.Paths.imageStore("root"), archive); err != nil {
			return err
		}
		return writeFile(mark, nil)
	})
}

// importInto imports an archive into a store. It runs a containerd on the store until the import is done.
func importInto(ctx context.Context, root, archive string) (err error) {
	state, err := os.MkdirTemp("", "containerd-") // a short path, because the length of the path of a socket is limited
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	address := filepath.Join(state, "containerd.sock")
	config := filepath.Join(state, "config.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = %q
`, root, filepath.Join(state, "state"), address), 0o600); err != nil {
		return err
	}
	containerd := exec.CommandContext(ctx, "containerd", "--config", config)
	containerd.Cancel = func() error { return containerd.Process.Signal(os.Interrupt) }
	if err := containerd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = containerd.Process.Signal(os.Interrupt)
		if waited := containerd.Wait(); err == nil && waited != nil {
			err = fmt.Errorf("containerd on %s: %w", root, waited)
		}
	}()
	ctr := func(args ...string) error {
		_, err := run(ctx, "ctr", append([]string{"--address", address, "--namespace", "k8s.io"}, args...)...)
		return err
	}
	for ctr("version") != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return ctr("images", "import", archive)
}

// linkImages copies the store in the cache to a new cluster with hard links. It does nothing if the cluster already
// has a store, if the cache has none, or if files cannot be linked. If the store of the cluster lacks an image, the
// command that loads this image imports it.
func (c *Cluster) linkImages(ctx context.Context) error {
	if exists(c.Paths.state("containerd")) || !exists(c.Paths.imageStore(unpackedMarks)) {
		return nil
	}
	unlock, err := lockFile(c.Paths.imageStore() + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	partial := c.Paths.state(".containerd")
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if _, err := run(ctx, "cp", "-al", c.Paths.imageStore(), partial); err != nil {
		c.Progress.Printf("linking the images of the cache failed, so they are imported later: %v", err)
		return os.RemoveAll(partial)
	}
	databases, err := filepath.Glob(filepath.Join(partial, "root", "*", "*.db"))
	if err != nil {
		return err
	}
	if len(databases) == 0 {
		return errors.New("the image store in the cache has no database: run `localcluster cache --clear`")
	}
	for _, database := range databases { // containerd changes databases in place, so they are copied
		content, err := os.ReadFile(database)
		if err != nil {
			return err
		}
		if err := errors.Join(os.Remove(database), os.WriteFile(database, content, 0o600)); err != nil {
			return err
		}
	}
	return os.Rename(partial, c.Paths.state("containerd"))
}
