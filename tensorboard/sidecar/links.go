package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxName is how long the name of a file may be, in bytes, as everywhere on Linux.
const maxName = 255

// layOut makes the folder of logs what the sources need: a link or a folder for each, and nothing else. What was there
// before and is still right stays, so that a sidecar that starts again does not take away what TensorBoard reads. It
// returns the folder.
func layOut(folder string, sources []Source) (_ *os.Root, err error) {
	logs, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder for logs must be there: %w", err)
	}
	defer func() {
		if err != nil {
			_ = logs.Close()
		}
	}()
	runs := map[string]bool{}
	for _, s := range sources {
		runs[s.Run] = true
	}
	there, err := fs.ReadDir(logs.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, entry := range there {
		if !runs[entry.Name()] {
			if err := logs.RemoveAll(entry.Name()); err != nil {
				return nil, fmt.Errorf("removing what no source needs any more: %w", err)
			}
		}
	}
	for _, s := range sources {
		if s.Link != "" {
			err = link(logs, s.Run, s.Link)
		} else {
			err = mkdir(logs, s.Run)
		}
		if err != nil {
			return nil, fmt.Errorf("making run %s: %w", s.Run, err)
		}
	}
	return logs, nil
}

// link makes name a link to target, which need not be there yet.
func link(logs *os.Root, name, target string) error {
	if is, err := logs.Readlink(name); err == nil && is == target {
		return nil
	}
	if err := logs.RemoveAll(name); err != nil {
		return err
	}
	return logs.Symlink(target, name)
}

// mkdir makes name a folder. TensorBoard, which may be another user, can read it.
func mkdir(logs *os.Root, name string) error {
	info, err := logs.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		if err := logs.Remove(name); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return logs.Mkdir(name, 0o755)
}
