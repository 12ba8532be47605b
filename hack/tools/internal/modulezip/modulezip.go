// Package modulezip writes a module of the repository as the zip file that a module proxy serves.
package modulezip

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const license = "LICENSE"

// Create writes the files of the module in the folder root/name that git has or would take, and the license. The same
// files and version give the same bytes.
func Create(w io.Writer, root, name string, m module.Version) error {
	files, err := filesOf(root, name)
	if err != nil {
		return err
	}
	return zip.Create(w, m, files)
}

// filesOf returns the files of a module that git has or would take.
func filesOf(root, name string) ([]zip.File, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = filepath.Join(root, name)
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of the module: %w", err)
	}
	// It is the license of all modules, and each has to come with one.
	files := []zip.File{file{path: license, on: filepath.Join(root, license)}}
	for p := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		on := filepath.Join(root, name, filepath.FromSlash(p))
		if _, err := os.Lstat(on); errors.Is(err, os.ErrNotExist) {
			continue // it is deleted, and that not yet committed
		}
		files = append(files, file{path: path.Clean(p), on: on})
	}
	return files, nil
}

// file implements zip.File.
type file struct{ path, on string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.on) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.on) }
