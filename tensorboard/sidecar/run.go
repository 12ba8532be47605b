package sidecar

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// downloads is how many files of a source are fetched at once.
	downloads = 4
	// giveUp is after how many failures a fetch ends early, if the server does not even refuse: it has gone, and each try
	// takes time. The files are tried in no order, so that the same ones do not end each fetch.
	giveUp = 8
	// overlap is how much of the end of an event file is fetched again, to see that it is still the same file that goes
	// on. Each of its records has the time of its writing, so another file differs there.
	overlap = 16 << 10
)

// run is the folder of a source that is fetched.
type run struct {
	store store
	root  *os.Root // nothing outside is reached, whatever the names are
	quota *quota

	mu       sync.Mutex
	versions map[string]string // of the files that are here as a whole, as far as known
}

// newRun goes on with what is in the folder already.
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

// fetch makes the folder what the source is now. What cannot be fetched does not keep the rest away.
func (r *run) fetch(ctx context.Context) error {
	objects, err := r.store.list(ctx)
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
			enough := len(broken) >= giveUp
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
	if len(broken) >= giveUp {
		return fmt.Errorf("gave up until the next time: %w", first(broken))
	}
	return summary(failures, len(objects))
}

// summary is one error for all, and the same for the same.
func summary(failures []error, of int) error {
	if len(failures) == 0 {
		return nil
	}
	if of == 1 {
		return failures[0]
	}
	return fmt.Errorf("%d of %d files cannot be fetched, such as %w", len(failures), of, first(failures))
}

// first is the same in whatever order the errors came.
func first(failures []error) error {
	return slices.MinFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// prune removes what is not at the source any more, and what is in the way.
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
		return fmt.Errorf("removing what is not at the source any more: %w", err)
	}
	for _, folder := range slices.Backward(folders) {
		if folder != "." {
			_ = r.root.Remove(folder) // fails, as it should, where something is left in it
		}
	}
	return nil
}

// sync makes one file what its object is now.
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

// file is what is here of an object.
type file struct {
	size     int64 // 0 also if there is nothing
	modified time.Time
	version  string // empty if unknown, such as for files that an earlier sidecar fetched
}

// is says whether the file is all of that version of its object. A file that was fetched as a whole has the object's
// time.
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

// extend appends to an event file what its object has more, in place, since TensorBoard keeps the file open. If it
// turns out to be another file, it is removed and fetched the next time: TensorBoard has noticed by then, which it does
// not if one file takes another's place at once.
func (r *run) extend(ctx context.Context, o object, have file) error {
	from := max(0, have.size-overlap)
	if o.size == have.size {
		from = 0 // it changed without growing, so all of it is looked at
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
		return fmt.Errorf("the server sent it from byte %d on, though it was asked for byte %d", c.start, from)
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

// compare reads as much of the content as there is of the beginning, and says whether they are the same.
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

// errOther: what is written to a comparer is not what it is compared with.
var errOther = errors.New("it is another file")

// comparer is written what should be the same as what it reads.
type comparer struct{ with io.Reader }

// Write compares.
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

// replace fetches a file that may change anywhere, and puts it in place once all of it is there.
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
		return fmt.Errorf("the server sent it from byte %d on, though it was asked for all", c.start)
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

// complete notes that all of an object is here.
func (r *run) complete(name string, size int64, c *content) error {
	if c.size >= 0 && size != c.size {
		return fmt.Errorf("the server sent %d bytes, though it has %d", size, c.size)
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

func (r *run) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.versions, name)
}

// fits says whether there is space for so much, before any of it is fetched.
func (r *run) fits(n int64) error {
	if err := r.quota.take(n); err != nil {
		return err
	}
	r.quota.give(n)
	return nil
}

// mkdirFor makes the folders that a file is in.
func (r *run) mkdirFor(name string) error {
	return r.root.MkdirAll(path.Dir(name), 0o755)
}

// remove removes a file, if it is there, and gives back its space.
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

// quotaWriter writes what there is space for.
type quotaWriter struct {
	io.Writer
	quota *quota
}

// Write takes the space, and then writes.
func (w *quotaWriter) Write(b []byte) (int, error) {
	if err := w.quota.take(int64(len(b))); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(b)
	w.quota.give(int64(len(b) - n))
	return n, err
}
