// Package modulezip writes a module of the repository as a zip file in the format of a module proxy.
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

// Create writes a zip file with the module whose folder is root/name. The zip file contains the license and the files
// that Git tracks or does not ignore. The same files and the same version give the same bytes.
func Create(w io.Writer, root, name string, m module.Version) error {
	files, err := filesOf(root, name)
	if err != nil {
		return err
	}
	return zip.Create(w, m, files)
}

// filesOf returns the license of the repository and, from the folder of the module, each file that Git tracks or does
// not ignore.
func filesOf(root, name string) ([]zip.File, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = filepath.Join(root, name)
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of the module: %w", err)
	}
	// Every module must contain a license. All modules share the license of the repository.
	files := []zip.File{file{path: license, on: filepath.Join(root, license)}}
	for p := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		on := filepath.Join(root, name, filepath.FromSlash(p))
		if _, err := os.Lstat(on); errors.Is(err, os.ErrNotExist) {
			continue // the file is deleted, but the deletion is not committed yet
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
