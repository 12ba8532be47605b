package localcluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Paths holds the two folders that the local cluster writes to.
type Paths struct {
	// Cache is the folder for built binaries and images. Down keeps it.
	Cache string
	// State is the folder for all files of the running cluster. Down deletes it.
	State string
}

// DefaultPaths returns the folders that TENSORSTACK_CACHE and TENSORSTACK_STATE name. The defaults are below the XDG
// folders.
func DefaultPaths() (Paths, error) {
	cache, err := folder("TENSORSTACK_CACHE", "XDG_CACHE_HOME", ".cache", "tensorstack-jobs")
	if err != nil {
		return Paths{}, err
	}
	state, err := folder("TENSORSTACK_STATE", "XDG_STATE_HOME", ".local/state", "tensorstack-jobs/localcluster")
	if err != nil {
		return Paths{}, err
	}
	return Paths{Cache: cache, State: state}, nil
}

// folder returns the folder that the environment variable own names. If this variable is not set, the result is a
// subfolder, with the relative path sub, of the folder that the variable xdg names. If xdg is not set either, it is
// the same subfolder of the folder home in the user's home folder.
func folder(own, xdg, home, sub string) (string, error) {
	if dir := os.Getenv(own); dir != "" {
		return filepath.Abs(dir)
	}
	base := os.Getenv(xdg)
	if base == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no home folder: set %s or HOME: %w", own, err)
		}
		base = filepath.Join(user, home)
	}
	return filepath.Abs(filepath.Join(base, sub))
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (p Paths) Kubeconfig() string { return p.state("kubeconfig") }

func (p Paths) state(elem ...string) string {
	return filepath.Join(append([]string{p.State}, elem...)...)
}

func (p Paths) cache(elem ...string) string {
	return filepath.Join(append([]string{p.Cache}, elem...)...)
}

// FindRepo returns the root of the repository. If the argument is not empty, it must be the path of the root.
// Otherwise, FindRepo searches the working directory, the folder of this executable and their parents for the
// component modules. The program reads these modules at run time, because go:embed cannot embed files of a nested
// module.
func FindRepo(given string) (string, error) {
	var starts []string
	if given != "" {
		starts = []string{given}
	} else {
		if wd, err := os.Getwd(); err == nil {
			starts = append(starts, wd)
		}
		if exe, err := os.Executable(); err == nil {
			starts = append(starts, filepath.Dir(exe))
		}
	}
	for _, start := range starts {
		dir, err := filepath.Abs(start)
		if err != nil {
			return "", err
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, componentsFolder, "kubernetes", "go.mod")); err == nil {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir || given != "" {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("%s not found in or above %s: run this inside the repository or set --repo",
		componentsFolder, cmp.Or(given, "the working directory"))
}
