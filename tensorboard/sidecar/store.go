package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// store is the location of the files of a source.
type store interface {
	// list returns the current files that TensorBoard shows. The keys of the map are the files that projector
	// configurations name.
	list(ctx context.Context, named map[string]bool) ([]object, error)
	// open returns the content of the object from the given offset. The content can also begin at an earlier offset. The
	// parameter known is the version of the local copy if that is complete, and empty otherwise.
	open(ctx context.Context, o object, from int64, known string) (*content, error)
}

// object is a file in a store.
type object struct {
	path     string // relative to the source, not validated
	size     int64  // negative if unknown before open
	version  string // changes whenever the object changes; empty if unknown before open
	modified time.Time
}

// content is the content of an object, or the last part of it.
type content struct {
	io.ReadCloser
	start    int64 // the offset in the object at which the content begins
	size     int64 // of the whole object; negative if unknown
	version  string
	modified time.Time
}

// Results of open that are not failures.
var (
	// errUnchanged means that the object still has the known version.
	errUnchanged = errors.New("the file has not changed")
	// errShorter means that the object ends before the offset.
	errShorter = errors.New("the file has become shorter")
	// errChanged means that the object has changed since it was listed. The next list returns the new version.
	errChanged = errors.New("the file has changed since it was listed")
)

// refused is the error of a server that refuses to return an object. Other objects might be available.
type refused struct{ error }

// partialSuffix is the suffix of the names of incomplete files.
const partialSuffix = ".sidecar-partial"

// isEventFile reports whether a file is an event file, to which data is only appended.
func isEventFile(name string) bool { return strings.Contains(path.Base(name), "tfevents") }

// isShown reports whether TensorBoard shows data of a file. TensorBoard does not show checkpoints, which are large.
// The keys of the map are the files that projector configurations name.
func isShown(name string, named map[string]bool) bool {
	folder, base := path.Split(name)
	return isEventFile(name) || base == projectorConfig || named[name] ||
		slices.Contains(strings.Split(folder, "/"), "plugins")
}

// sift returns the objects that can be files in the same folder, by their paths. It returns an error for each object
// with an invalid path, and for each object below the path of another object.
func sift(objects []object) (map[string]object, []error) {
	files := map[string]object{}
	var refused []error
	for _, o := range objects {
		if err := checkPath(o.path); err != nil {
			refused = append(refused, fmt.Errorf("%q: %w", o.path, err))
			continue
		}
		files[o.path] = o
	}
	for name := range files {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, ok := files[folder]; ok {
				refused = append(refused, fmt.Errorf("%q: %q is a file, not a folder", name, folder))
				delete(files, name)
				break
			}
		}
	}
	return files, refused
}

// checkPath returns an error for a path that leads out of the folder, is not in canonical form, ends with
// partialSuffix, or has an element that is too long.
func checkPath(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\x00") {
		return errors.New("its name is not a valid path in this folder")
	}
	if strings.HasSuffix(name, partialSuffix) {
		return errors.New("its name has the suffix " + partialSuffix + ", which the sidecar reserves")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return fmt.Errorf("its name has an element with more than %d bytes", maxName)
		}
	}
	return nil
}
