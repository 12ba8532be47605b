package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies the agent into the folder, and creates the link ssh and the hostfile there. It can be repeated.
func install(folder string) error {
	program := filepath.Join(folder, "agent")
	err := errors.Join(copyProgram("/proc/self/exe", program), link("agent", filepath.Join(folder, "ssh")),
		makeHostfile(filepath.Join(folder, "hostfile")))
	if err != nil {
		return fmt.Errorf(
			"installing the agent: %w: the folder must be a volume that the user of the init container can write to", err)
	}
	return nil
}

// copyProgram replaces the file by renaming, since the existing program might be running.
func copyProgram(from, to string) error {
	source, err := os.Open(from) //nolint:gosec // the file is the running program
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temporary := to + ".new"
	//nolint:gosec // all users must be able to run it
	target, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	// The umask does not apply to Chmod. The workers can run as another user.
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

// makeHostfile creates the file that is mounted as the hostfile. Every user in the pod can write to it.
func makeHostfile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // the workers can run as another user
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o666), f.Close())
}
