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

// store is where files of a source are.
type store interface {
	// list returns the files that are there now and that TensorBoard shows.
	list(ctx context.Context) ([]object, error)
	// open returns what the object holds from an offset on, or from an earlier one. known is the version of it that is
	// already here, if all of it is.
	open(ctx context.Context, o object, from int64, known string) (*content, error)
}

// object is a file in a store.
type object struct {
	path     string // relative to the source, as the store says: anything
	size     int64  // negative if only the content tells
	version  string // changes whenever the object does; empty if only the content tells
	modified time.Time
}

// content is what an object holds, or the end of that.
type content struct {
	io.ReadCloser
	start    int64 // offset
	size     int64 // of the whole object; negative if unknown
	version  string
	modified time.Time
}

// What open may find, besides failures.
var (
	// errUnchanged: the object is still the known version.
	errUnchanged = errors.New("it has not changed")
	// errShorter: the object ends before the offset.
	errShorter = errors.New("it has become shorter")
	// errChanged: the object is no longer the one that was listed. The next listing tells more.
	errChanged = errors.New("it has just changed")
)

// refused is a server's answer that it does not give an object. Others it may give.
type refused struct{ error }

// partialSuffix ends the names of files that are not here as a whole yet.
const partialSuffix = ".sidecar-partial"

// isEventFile says whether a file is only ever appended to.
func isEventFile(name string) bool { return strings.Contains(path.Base(name), "tfevents") }

// isShown says whether TensorBoard shows something of a file. Checkpoints, which are large, it does not.
func isShown(name string) bool {
	switch folder, base := path.Split(name); {
	case isEventFile(name), slices.Contains(strings.Split(folder, "/"), "plugins"):
		return true
	default:
		// The projector's own, as PyTorch writes them.
		return slices.Contains([]string{"projector_config.pbtxt", "tensors.tsv", "metadata.tsv", "sprite.png"}, base)
	}
}

// sift returns the objects that can be files beside each other in one folder, by their paths, and errors for the
// others.
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
				refused = append(refused, fmt.Errorf("%q: it cannot be fetched, since %q is a file and not a folder", name, folder))
				delete(files, name)
				break
			}
		}
	}
	return files, refused
}

// checkPath refuses paths that lead out of the folder, that are another's in disguise, or that no file can have.
func checkPath(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\x00") {
		return errors.New("its name is not that of a file in this folder")
	}
	if strings.HasSuffix(name, partialSuffix) {
		return errors.New("its name is one of those that the sidecar needs itself")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return fmt.Errorf("its name has a part of more than %d bytes, which no file can have", maxName)
		}
	}
	return nil
}
