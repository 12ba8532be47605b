package progress

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// EnvFile is the environment variable with the path of the file to which a program appends its reports.
const EnvFile = "T9K_PROGRESS_FILE"

// ReportStart reports to the receiver of the pod that the processes of the training start again, for launchers that
// start them. See Report.IsStart. It does nothing if the pod has no receiver.
func ReportStart() error {
	path := os.Getenv(EnvFile)
	if path == "" {
		return nil
	}
	// The program can replace the file. Neither the target of a symbolic link nor a FIFO must stop the launcher.
	const flags = os.O_APPEND | os.O_WRONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, flags, 0) //nolint:gosec // the controller sets the path
	if err == nil {
		// The program can have been killed within a line. Empty lines are ignored.
		_, err = file.WriteString("\n{\"starting\": true}\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("reporting that the training starts again: %w", err)
	}
	return nil
}
