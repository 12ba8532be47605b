// Package helper has code for the programs that controllers run in the pods of jobs. These programs are in the images
// of the controllers: an init container with such an image copies the program into a volume, and the main container
// runs the copy.
package helper

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Exit codes that mean the same as in a shell.
const (
	ExitCannotRun = 126
	ExitNotFound  = 127
	ExitSignal    = 128 // the exit code is 128 plus the number of the signal
)

// Install copies the running program to the file. All users can run the copy. If the file exists, Install replaces it
// by renaming, because Linux does not allow writes to the file of a running program.
func Install(file string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temporary := file + ".new"
	//nolint:gosec // all users must be able to run it
	target, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	// The umask applies to OpenFile, but not to Chmod. Without Chmod, a main container with another user might not be
	// able to run the copy.
	if err := errors.Join(err, target.Chmod(0o755), target.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// ExitCode returns the exit code that a shell would use for the status.
func ExitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return ExitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
