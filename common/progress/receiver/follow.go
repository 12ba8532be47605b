package receiver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"tensorstack.dev/jobs/common/progress"
)

const (
	// maxRead is how much of the file is read per poll, in bytes. If the program has appended more, the beginning of the
	// new part is skipped.
	maxRead = 1 << 20
	// maxFile is the maximum size of the file, in bytes. A larger file is truncated as soon as all of it was read.
	maxFile = 4 << 20
)

// follower reads the lines that a program appends to a file. If the file gets shorter or is replaced, the follower
// reads the file from the beginning. If the program overwrites the file and the file does not get shorter, the
// follower does not notice. The first follower of a file leaves a marker next to the file. A later follower, for
// example after a restart of the sidecar, finds the marker and begins at the end of the file: the lines before are
// old, and must not count as progress again.
type follower struct {
	path string
	// line is a function that is called for each complete line that is not empty and has at most progress.MaxBody bytes.
	// The bytes of the line are only valid during the call.
	line func(line []byte)

	// file is the file of the last poll. It stays open, so that no other file gets its inode number.
	file *os.File
	// offset is where the next poll begins: at the beginning of a line, or within a line that is skipped.
	offset    int64
	isSkipped bool
}

// poll reads the lines that were appended since the last poll.
func (f *follower) poll() error {
	size, err := f.open()
	if err != nil {
		return err
	}
	if size-f.offset > maxRead {
		f.offset, f.isSkipped = size-maxRead, true
	}
	if err := f.read(size); err != nil {
		return fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.truncate()
	return nil
}

// open opens the file, and returns its size. It creates a missing file.
func (f *follower) open() (size int64, err error) {
	file, err := openFile(f.path)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s must be a regular file, but is %s: remove it", f.path, info.Mode().Type())
	}
	if err != nil {
		return 0, errors.Join(err, file.Close())
	}
	if last := f.file; last != nil {
		before, err := last.Stat()
		if err != nil || !os.SameFile(before, info) || info.Size() < f.offset {
			f.offset, f.isSkipped = 0, false
		}
		_ = last.Close()
	}
	if f.file == nil && !f.isFirst() {
		f.offset, f.isSkipped = info.Size(), !endsWithNewline(file, info.Size())
	}
	f.file = file
	return info.Size(), nil
}

// isFirst reports whether no earlier follower has left the marker, and creates the marker.
func (f *follower) isFirst() bool {
	//nolint:gosec // the marker has no content
	marker, err := os.OpenFile(f.path+".followed", os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644)
	if err == nil {
		_ = marker.Close()
	}
	return !errors.Is(err, fs.ErrExist)
}

// endsWithNewline reports whether a file of the given size is empty or ends with a newline.
func endsWithNewline(file *os.File, size int64) bool {
	last := make([]byte, 1)
	if size == 0 {
		return true
	}
	_, err := file.ReadAt(last, size-1)
	return err == nil && last[0] == '\n'
}

// openFile opens a file. If the file does not exist, openFile creates it so that a program with any user ID can
// append to it. openFile neither follows a symbolic link nor waits for the writer of a FIFO, because the program can
// create both.
func openFile(path string) (*os.File, error) {
	const flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0) //nolint:gosec // the controller sets the path
	switch {
	case errors.Is(err, fs.ErrNotExist):
		//nolint:gosec // the program can have another user ID
		file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o666)
		if err != nil {
			return nil, err
		}
		if err := file.Chmod(0o666); err != nil { // the umask does not apply to Chmod
			return nil, errors.Join(err, file.Close())
		}
	case errors.Is(err, fs.ErrPermission): // a program with another user ID has created the file
		file, err = os.OpenFile(path, os.O_RDONLY|flags, 0) //nolint:gosec // the controller sets the path
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s must be a regular file, but is a symbolic link: remove it", path)
	}
	return file, err
}

// read reads the complete lines between the offset and the size of the file.
func (f *follower) read(size int64) error {
	reader := bufio.NewReaderSize(io.NewSectionReader(f.file, f.offset, size-f.offset), progress.MaxBody+1)
	for {
		line, err := reader.ReadSlice('\n')
		length := int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			if f.isSkipped {
				f.offset += length
			}
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			f.isSkipped = true
		case err != nil:
			return err
		case f.isSkipped:
			f.isSkipped = false
		default:
			if line = bytes.TrimSpace(line); len(line) > 0 {
				f.line(line)
			}
		}
		f.offset += length
	}
}

// truncate truncates a large file if all of it was read. A program that appends continues at the new end. A line that
// the program appends during the truncation can be lost, but the next report makes up for it.
func (f *follower) truncate() {
	info, err := f.file.Stat()
	if err != nil || info.Size() <= maxFile || info.Size() != f.offset {
		return
	}
	if f.file.Truncate(0) == nil { // it fails if only the program can write to the file
		f.offset = 0
	}
}
