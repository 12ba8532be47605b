package localcluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PrintCache prints the folders of the cache and how large each is, in MiB.
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

// sizeOf returns how many bytes the files of a folder have, without following links.
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

// ClearCache deletes everything in the cache, and waits for a command that changes the cluster to end. A cluster that
// is up runs on, and is built again when it is brought up.
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
			continue // the lock
		}
		folder := filepath.Join(p.Cache, entry.Name())
		if len(mountsBelow(folder)) > 0 {
			return fmt.Errorf("something is mounted below %s: an image is being built; try again when it is done", folder)
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}
