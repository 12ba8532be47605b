package localcluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	cgroupFolder = "/sys/fs/cgroup"
	// cgroupRoot is the parent of the cgroups of pods. It separates the pods of the cluster from the pods of another
	// kubelet on the host.
	cgroupRoot = "tsjobs"
)

// cgroupRoots returns the folders of cgroupRoot. With cgroup v2, there is one folder. With cgroup v1, there is one for
// each controller.
func cgroupRoots() []string {
	if exists(filepath.Join(cgroupFolder, "cgroup.controllers")) {
		return []string{filepath.Join(cgroupFolder, cgroupRoot)}
	}
	var roots []string
	entries, _ := os.ReadDir(cgroupFolder)
	for _, e := range entries {
		if e.IsDir() { // the other entries are links, such as cpu -> cpu,cpuacct
			roots = append(roots, filepath.Join(cgroupFolder, e.Name(), cgroupRoot))
		}
	}
	return roots
}

// ensureCgroups creates cgroupRoot, which the kubelet requires.
func ensureCgroups() error {
	var errs []error
	for _, root := range cgroupRoots() {
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
		// On cgroup v2, a child has only the controllers that its parent enables for children.
		parent := filepath.Dir(root)
		controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		if err != nil || parent != cgroupFolder {
			continue
		}
		for name := range strings.FieldsSeq(string(controllers)) {
			// Some controllers cannot be enabled. The kubelet reports an error if it needs one of them.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0)
		}
	}
	return errors.Join(errs...)
}

// removeCgroups removes cgroupRoot and the empty cgroups below it. It returns an error for a cgroup with processes.
func removeCgroups() error {
	var errs []error
	for _, root := range cgroupRoots() {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) { // backward, because a cgroup can only be removed without children
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
