package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tensorstack.dev/jobs/common/helper"
)

// Install copies the agent into the folder, and creates the link ssh and the hostfile there. It can be repeated.
func Install(folder string) error {
	err := errors.Join(helper.Install(filepath.Join(folder, "agent")), link("agent", filepath.Join(folder, "ssh")),
		makeHostfile(filepath.Join(folder, "hostfile")))
	if err != nil {
		return fmt.Errorf(
			"installing the agent: %w: the folder must be a volume that the user of the init container can write to", err)
	}
	return nil
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
