package localcluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PrintCache prints the folders of the cache with their sizes in MiB, and the total size.
func (p Paths) PrintCache(out io.Writer) error {
	entries, err := os.ReadDir(p.Cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var total int64
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		size, err := sizeOf(filepath.Join(p.Cache, entry.Name()))
		if err != nil {
			return err
		}
		total += size
		if _, err := fmt.Fprintf(out, "%8d MiB  %s\n", size>>20, entry.Name()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%8d MiB  %s\n", total>>20, p.Cache)
	return err
}

// sizeOf returns the total size of the files in a folder in bytes. It does not follow links.
func sizeOf(folder string) (size int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		return nil
	})
	return size, err
}

// ClearCache deletes all folders in the cache. While another command changes the cluster, ClearCache waits. It
// returns an error if there are mounts below a folder, because an image is being built there. A running cluster
// continues to run. The next Up builds the components again.
func (p Paths) ClearCache() error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(p.Cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue // keep the lock files
		}
		folder := filepath.Join(p.Cache, entry.Name())
		if len(mountsBelow(folder)) > 0 {
			return fmt.Errorf("an image is being built, and has mounts below %s: try again after the build", folder)
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}
