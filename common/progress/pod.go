package progress

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// Environment variables of the main container in a pod that has a receiver. If EnvURL and EnvToken are set, the
// KubeflowCallback of Hugging Face Transformers reports the progress by itself.
const (
	// EnvFile has the path of the file to which the program appends its reports.
	EnvFile = "T9K_PROGRESS_FILE"
	// EnvURL has the URL to which the program sends its reports.
	EnvURL = "KUBEFLOW_TRAINER_SERVER_URL"
	// EnvToken has the path of the file with the token of the receiver.
	EnvToken = "KUBEFLOW_TRAINER_SERVER_TOKEN"
)

// readPod reads the state of the receiver of the pod. It takes at most ReadTimeout. It returns an error if the
// variables EnvURL and EnvToken do not describe a receiver.
func readPod(ctx context.Context) (State, error) {
	address, err := url.Parse(os.Getenv(EnvURL))
	if err != nil {
		return State{}, fmt.Errorf("the variable %s: %w", EnvURL, err)
	}
	token, err := os.ReadFile(os.Getenv(EnvToken)) //nolint:gosec // the controller sets the path
	if err != nil {
		return State{}, fmt.Errorf("the variable %s: %w", EnvToken, err)
	}
	return NewClient().Read(ctx, Target{Address: address.Host, Token: strings.TrimSpace(string(token))})
}

// ReadStep returns the last step of the training that the receiver of the pod knows. It returns -1 if nothing was
// reported yet, and nil if the step is unknown. It takes at most ReadTimeout.
func ReadStep(ctx context.Context) *int64 {
	state, err := readPod(ctx)
	switch {
	case err != nil:
		return nil
	case state.Reports == 0:
		return new(int64(-1))
	default:
		return state.Step
	}
}

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
