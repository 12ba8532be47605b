package sidecar

import (
	"fmt"
	"io/fs"
	"os"
)

// maxName is the maximum length, in bytes, of a file name on Linux.
const maxName = 255

// layOut creates a link or a folder for each source in the folder of logs, and removes everything else from it.
// layOut keeps existing links and folders that are still correct, so that a restart of the sidecar does not remove
// files that TensorBoard reads. It returns the folder of logs.
func layOut(folder string, sources []Source) (_ *os.Root, err error) {
	logs, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder of logs must exist: %w", err)
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
				return nil, fmt.Errorf("removing a run that no source needs: %w", err)
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
			return nil, fmt.Errorf("creating run %s: %w", s.Run, err)
		}
	}
	return logs, nil
}

// link creates a link with the given name. It replaces any other file or folder that has the name. The target need
// not exist yet.
func link(logs *os.Root, name, target string) error {
	if is, err := logs.Readlink(name); err == nil && is == target {
		return nil
	}
	if err := logs.RemoveAll(name); err != nil {
		return err
	}
	return logs.Symlink(target, name)
}

// mkdir creates a folder with the given name, unless it exists. It replaces a file or a link that has the name. All
// users can read the new folder, because TensorBoard can run as another user.
func mkdir(logs *os.Root, name string) error {
	if info, err := logs.Lstat(name); err == nil && !info.IsDir() {
		if err := logs.Remove(name); err != nil {
			return err
		}
	}
	return logs.MkdirAll(name, 0o755)
}
