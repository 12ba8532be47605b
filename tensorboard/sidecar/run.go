package sidecar

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// downloads is how many files of a source are fetched concurrently.
	downloads = 4
	// maxFailures is the number of failed files after which a fetch ends early, because the server is probably
	// unavailable and each attempt takes time. Files that the server refuses or that exceed the quota do not count. The
	// files are fetched in random order, so that the same files do not end every fetch.
	maxFailures = 8
	// overlap is the number of bytes at the end of a local event file that are fetched again. If they are the same, data
	// was only appended to the file. Another file has other bytes there, because each record contains the time when it
	// was written.
	overlap = 16 << 10
)

// run is the folder into which the files of a source are fetched.
type run struct {
	store store
	root  *os.Root // prevents access outside of the folder, whatever the file names are
	quota *quota

	mu       sync.Mutex
	versions map[string]string // known versions of the files that are complete
}

// newRun returns a run for a folder. Files that are already in the folder count towards the quota.
func newRun(s store, root *os.Root, q *quota) (*run, error) {
	r := &run{store: s, root: root, quota: q, versions: map[string]string{}}
	err := fs.WalkDir(root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			q.used.Add(info.Size())
		}
		return err
	})
	return r, err
}

// fetch synchronizes the folder with the source. If new projector configurations arrive that name other files than
// before, fetch also gets these files.
func (r *run) fetch(ctx context.Context) error {
	named := projectorFiles(r.root.FS())
	err := r.fetchShown(ctx, named)
	if now := projectorFiles(r.root.FS()); !maps.Equal(now, named) {
		err = r.fetchShown(ctx, now)
	}
	return err
}

// fetchShown synchronizes the folder with the files of the source that TensorBoard shows. If a file cannot be
// fetched, the other files are still fetched, until maxFailures is reached.
func (r *run) fetchShown(ctx context.Context, named map[string]bool) error {
	objects, err := r.store.list(ctx, named)
	if err != nil {
		return err
	}
	files, failures := sift(objects)
	if err := r.prune(files); err != nil {
		return err
	}
	var mu sync.Mutex
	var broken []error
	var group errgroup.Group
	group.SetLimit(downloads)
	for name, o := range files {
		group.Go(func() error {
			mu.Lock()
			enough := len(broken) >= maxFailures
			mu.Unlock()
			if enough || ctx.Err() != nil {
				return nil
			}
			err := r.sync(ctx, o)
			if err == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, fmt.Errorf("%q: %w", name, err))
			if _, ok := errors.AsType[refused](err); !ok && !errors.Is(err, errLimit) {
				broken = append(broken, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if len(broken) >= maxFailures {
		return fmt.Errorf("too many failures; the next fetch tries again: %w", first(broken))
	}
	return summary(failures, len(objects))
}

// summary returns one error for all failures. The text of the error does not depend on the order of the failures.
func summary(failures []error, of int) error {
	if len(failures) == 0 {
		return nil
	}
	if of == 1 {
		return failures[0]
	}
	return fmt.Errorf("%d of %d files cannot be fetched, for example %w", len(failures), of, first(failures))
}

// first returns the error whose text sorts first, so that the result does not depend on the order of the errors.
func first(failures []error) error {
	return slices.MinFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// prune removes everything that is not a file of the source, including links and empty folders.
func (r *run) prune(files map[string]object) error {
	var folders []string
	err := fs.WalkDir(r.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			folders = append(folders, name)
			return nil
		}
		if _, ok := files[name]; ok && entry.Type().IsRegular() {
			return nil
		}
		return r.remove(name)
	})
	if err != nil {
		return fmt.Errorf("removing files that are no longer in the source: %w", err)
	}
	for _, folder := range slices.Backward(folders) {
		if folder != "." {
			_ = r.root.Remove(folder) // fails if the folder is not empty, as intended
		}
	}
	return nil
}

// sync synchronizes a file with its object.
func (r *run) sync(ctx context.Context, o object) error {
	have, err := r.have(o.path)
	switch {
	case err != nil:
		return err
	case o.size >= 0 && have.is(o.size, o.version, o.modified):
		return nil
	case !isEventFile(o.path):
		return r.replace(ctx, o)
	case o.size >= 0 && o.size < have.size:
		return r.remove(o.path)
	default:
		return r.extend(ctx, o, have)
	}
}

// file is the local state of an object.
type file struct {
	size     int64 // 0 if there is no file
	modified time.Time
	version  string // empty if unknown, for example after a restart of the sidecar
}

// is reports whether the file is a complete copy of the given version of its object. A complete file has the
// modification time of the object.
func (f file) is(size int64, version string, modified time.Time) bool {
	switch {
	case f.size != size:
		return false
	case f.version != "":
		return f.version == version
	default:
		return !modified.IsZero() && f.modified.Equal(modified)
	}
}

// have returns the local state of an object.
func (r *run) have(name string) (file, error) {
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, nil
	}
	if err != nil {
		return file{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return file{size: info.Size(), modified: info.ModTime(), version: r.versions[name]}, nil
}

// extend appends the new data of an object to its event file. The file is changed in place, because TensorBoard keeps
// it open. If the object has been replaced by another file, extend removes the local file, and the next fetch gets the
// new one. In between, TensorBoard notices that the file is gone. It would not notice an immediate replacement.
func (r *run) extend(ctx context.Context, o object, have file) error {
	from := max(0, have.size-overlap)
	if o.size == have.size {
		from = 0 // the object has changed without growing, so compare all of it
	}
	if o.size > have.size {
		if err := r.fits(o.size - have.size); err != nil {
			return err
		}
	}
	c, err := r.store.open(ctx, o, from, have.version)
	switch {
	case errors.Is(err, errUnchanged), errors.Is(err, errChanged):
		return nil
	case errors.Is(err, errShorter):
		return r.remove(o.path)
	case err != nil:
		return err
	}
	defer func() { _ = c.Close() }()
	switch {
	case c.start > from:
		return fmt.Errorf("the server sent the file from byte %d, but byte %d was requested", c.start, from)
	case have.is(c.size, c.version, c.modified):
		return nil
	case c.size >= 0 && c.size < have.size:
		return r.remove(o.path)
	}
	if err := r.mkdirFor(o.path); err != nil {
		return err
	}
	f, err := r.root.OpenFile(o.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r.forget(o.path)
	switch same, err := compare(c, io.NewSectionReader(f, c.start, have.size-c.start), have.size-c.start); {
	case err != nil:
		return err
	case !same:
		return r.remove(o.path)
	}
	written, err := io.Copy(&quotaWriter{io.NewOffsetWriter(f, have.size), r.quota}, c)
	if err != nil {
		return err
	}
	return r.complete(o.path, have.size+written, c)
}

// compare reads the given number of bytes from c, and reports whether the reader has the same bytes.
func compare(c *content, beginning io.Reader, size int64) (same bool, err error) {
	n, err := io.Copy(&comparer{beginning}, io.LimitReader(c, size))
	switch {
	case errors.Is(err, errOther):
		return false, nil
	case err != nil:
		return false, err
	case n < size && c.size >= 0:
		return false, io.ErrUnexpectedEOF
	default:
		return n == size, nil
	}
}

// errOther is returned if the data that is written to a comparer differs from the expected data.
var errOther = errors.New("the file has been replaced by another one")

// comparer is a writer that compares the written data with the data of a reader.
type comparer struct{ with io.Reader }

// Write returns errOther if the data differs.
func (c *comparer) Write(b []byte) (int, error) {
	want := make([]byte, len(b))
	if _, err := io.ReadFull(c.with, want); err != nil {
		return 0, err
	}
	if !bytes.Equal(want, b) {
		return 0, errOther
	}
	return len(b), nil
}

// replace fetches a file that can change at any position. It replaces the local file after all data has arrived.
func (r *run) replace(ctx context.Context, o object) (err error) {
	if err := r.fits(o.size); err != nil {
		return err
	}
	c, err := r.store.open(ctx, o, 0, "")
	if errors.Is(err, errChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if c.start > 0 {
		return fmt.Errorf("the server sent the file from byte %d, but the whole file was requested", c.start)
	}
	if err := r.mkdirFor(o.path); err != nil {
		return err
	}
	partial := path.Join(path.Dir(o.path), fmt.Sprintf(".%x%s", sha256.Sum256([]byte(o.path)), partialSuffix))
	if err := r.remove(partial); err != nil {
		return err
	}
	f, err := r.root.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	written, err := io.Copy(&quotaWriter{f, r.quota}, c)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, r.remove(partial))
	}
	if err := r.remove(o.path); err != nil {
		return err
	}
	if err := r.root.Rename(partial, o.path); err != nil {
		return err
	}
	return r.complete(o.path, written, c)
}

// complete records that the file of an object is complete.
func (r *run) complete(name string, size int64, c *content) error {
	if c.size >= 0 && size != c.size {
		return fmt.Errorf("the file has %d bytes after the download, but the server reports a size of %d", size, c.size)
	}
	if !c.modified.IsZero() {
		if err := r.root.Chtimes(name, c.modified, c.modified); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[name] = c.version
	return nil
}

// forget removes the known version of a file.
func (r *run) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.versions, name)
}

// fits returns an error if the quota has no space for n bytes. It is called before a download starts.
func (r *run) fits(n int64) error {
	if err := r.quota.take(n); err != nil {
		return err
	}
	r.quota.give(n)
	return nil
}

// mkdirFor creates the parent folders of a file.
func (r *run) mkdirFor(name string) error {
	return r.root.MkdirAll(path.Dir(name), 0o755)
}

// remove removes a file, if it exists, and returns its space to the quota.
func (r *run) remove(name string) error {
	r.forget(name)
	info, err := r.root.Lstat(name)
	if err == nil {
		err = r.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		r.quota.give(info.Size())
	}
	return err
}

// quotaWriter is a writer that takes the space for the data from a quota.
type quotaWriter struct {
	io.Writer
	quota *quota
}

// Write fails if the quota has no space for the data.
func (w *quotaWriter) Write(b []byte) (int, error) {
	if err := w.quota.take(int64(len(b))); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(b)
	w.quota.give(int64(len(b) - n))
	return n, err
}
