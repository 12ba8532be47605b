package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install puts the agent and its names into the folder. It may be done again.
func install(folder string) error {
	program := filepath.Join(folder, "agent")
	err := errors.Join(
		copyProgram("/proc/self/exe", program),
		link("agent", filepath.Join(folder, "ssh")),
		makeHostfile(filepath.Join(folder, "hostfile")),
	)
	if err != nil {
		return fmt.Errorf(
			"installing the agent: %w: the folder must be a volume that the user of the init container may write",
			err,
		)
	}
	return nil
}

// copyProgram replaces the file by renaming, since it may be running.
func copyProgram(from, to string) error {
	source, err := os.Open(from) //nolint:gosec // it is our own program
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temporary := to + ".new"
	target, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // everyone may run it
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	// Whatever the umask is: the workers may run as another user.
	if err := errors.Join(err, target.Chmod(0o755), target.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}

func link(target, name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, name)
}

// makeHostfile makes a file for a mount, which every user of the pod may write.
func makeHostfile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // the workers may run as another user
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o666), f.Close())
}
