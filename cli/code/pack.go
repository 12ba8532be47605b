package code

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Digest identifies the files of a Folder by their paths and their content.
type Digest struct {
	// SHA256 is the checksum of the archive that Tar writes, in hexadecimal digits.
	SHA256 string
	// Size is the size of the archive in bytes.
	Size int64
}

// Digest returns the digest of the code.
func (f *Folder) Digest() (Digest, error) {
	hash, size := sha256.New(), &Counter{}
	if err := f.Tar(io.MultiWriter(hash, size)); err != nil {
		return Digest{}, err
	}
	return Digest{SHA256: hex.EncodeToString(hash.Sum(nil)), Size: size.Load()}, nil
}

// Counter is a writer that counts the bytes that are written to it. Several goroutines can use it.
type Counter struct{ atomic.Int64 }

// Write implements io.Writer.
func (c *Counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// Tar writes the code as a tar archive. The archive has no times and no owners, so the same code always gives the
// same archive.
func (f *Folder) Tar(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, file := range f.Files {
		if err := f.add(archive, file); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	return archive.Close()
}

// add writes a file to an archive. It fails if the size of the file has changed since the folder was read.
func (f *Folder) add(archive *tar.Writer, file File) error {
	header := &tar.Header{Name: file.Path, Size: file.Size, Mode: 0o644}
	if file.Executable {
		header.Mode = 0o755
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	content, err := f.content.Open(file.Path)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	if errors.Is(err, tar.ErrWriteTooLong) {
		err = errChanged
	}
	if err = errors.Join(err, content.Close()); err != nil {
		return err
	}
	if archive.Flush() != nil { // the file is shorter than its header says
		return errChanged
	}
	return nil
}

var errChanged = errors.New("the file has changed while it was read: try again when nothing writes to the folder")
