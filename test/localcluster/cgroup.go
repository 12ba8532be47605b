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
	// cgroupRoot is where the pods' cgroups go: apart from those of a kubelet that the host may run itself.
	cgroupRoot = "tsjobs"
)

// cgroupRoots are the folders of cgroupRoot: one on cgroup v2, one a controller on v1.
func cgroupRoots() []string {
	if exists(filepath.Join(cgroupFolder, "cgroup.controllers")) {
		return []string{filepath.Join(cgroupFolder, cgroupRoot)}
	}
	var roots []string
	entries, _ := os.ReadDir(cgroupFolder)
	for _, e := range entries {
		if e.IsDir() { // the rest are links, such as cpu -> cpu,cpuacct
			roots = append(roots, filepath.Join(cgroupFolder, e.Name(), cgroupRoot))
		}
	}
	return roots
}

// ensureCgroups makes cgroupRoot, which kubelet wants to find.
func ensureCgroups() error {
	var errs []error
	for _, root := range cgroupRoots() {
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
		// On cgroup v2 a child has only the controllers that its parent hands down.
		parent := filepath.Dir(root)
		controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		if err != nil || parent != cgroupFolder {
			continue
		}
		for name := range strings.FieldsSeq(string(controllers)) {
			// Whether one can be handed down is for kubelet to judge: it knows which it needs.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0)
		}
	}
	return errors.Join(errs...)
}

// removeCgroups removes cgroupRoot with the empty cgroups below it. One with processes stays, and is reported.
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
		for _, dir := range slices.Backward(dirs) { // children come after their parent
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
