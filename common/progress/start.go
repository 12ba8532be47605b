package progress

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// EnvFile is the environment variable with the path of the file to which a program appends its reports.
const EnvFile = "T9K_PROGRESS_FILE"

// ReportStart reports to the receiver of the pod that the processes of the training start again. Launchers call it
// when they start the processes again. See Report.IsStart. ReportStart does nothing if the pod has no receiver.
func ReportStart() error {
	path := os.Getenv(EnvFile)
	if path == "" {
		return nil
	}
	// The program can replace the file with a symbolic link or a FIFO. With these flags, the launcher does not follow
	// the link, and does not wait for a reader of the FIFO.
	const flags = os.O_APPEND | os.O_WRONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, flags, 0) //nolint:gosec // the controller sets the path
	if err == nil {
		// Begin with a newline, because the program might have been killed while it wrote a line. Empty lines are ignored.
		_, err = file.WriteString("\n{\"starting\": true}\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("reporting that the training starts again: %w", err)
	}
	return nil
}
