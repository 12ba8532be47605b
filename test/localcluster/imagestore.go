package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Large images are unpacked once: into a containerd store in the cache that never runs a container. A new cluster
// begins with a copy of it that shares the files by hard links. Neither changes them: containerd writes new files for
// whatever is new, and overlayfs copies what a container changes.

func (p Paths) imageStore(elem ...string) string {
	return p.cache(append([]string{"containerd"}, elem...)...)
}

// unpackedMarks is the folder, in a store of the cache and in that of the cluster, with an empty file for each archive
// that it has unpacked.
const unpackedMarks = "unpacked"

// unpack unpacks an archive into the store of the cache, once.
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
		removeOthers(mark, archive[strings.LastIndex(archive, "/")+1:strings.LastIndex(archive, "-")]+"-*.tar")
		return writeFile(mark, nil)
	})
}

// importInto runs a containerd on a store for as long as it takes to import an archive.
func importInto(ctx context.Context, root, archive string) (err error) {
	state, err := os.MkdirTemp("", "containerd-") // the path of a socket must be short
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

// linkImages gives a new cluster the images of the store in the cache. It does nothing if the cluster has a store
// already, or where files cannot be linked: then images are imported when they are loaded.
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
		c.Progress.Printf("images of the cache cannot be linked: %v", err)
		return os.RemoveAll(partial)
	}
	databases, err := filepath.Glob(filepath.Join(partial, "root", "*", "*.db"))
	if err != nil {
		return err
	}
	if len(databases) == 0 {
		return errors.New("the store of images in the cache has no database: run `localcluster cache --clear`")
	}
	for _, database := range databases { // which containerd changes in place
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
