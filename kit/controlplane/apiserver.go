package controlplane

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The maximum number of tries of StartAPIServer, and the timeout of each try. The timeout is long because a start
// takes much longer while other tests run.
const (
	startTries   = 3
	startTimeout = 2 * time.Minute
)

// StartAPIServer starts the API server of an environment from newEnvironment, and returns this environment. If the
// API server does not start, StartAPIServer tries again with another environment, which has other ports. envtest
// selects ports that are free, but until the API server listens, any process can use such a port for a connection.
// The retries of envtest do not help, because they use the same port. If no try succeeds, the error has the reasons
// of all tries.
func StartAPIServer(newEnvironment func() *envtest.Environment) (*envtest.Environment, error) {
	var errs []error
	for range startTries {
		environment := newEnvironment()
		environment.ControlPlaneStartTimeout = startTimeout
		environment.CRDInstallOptions.MaxTime = patience
		_, err := environment.Start()
		if err == nil {
			return environment, nil
		}
		errs = append(errs, err, environment.Stop())
	}
	return nil, fmt.Errorf("starting an API server: %w", errors.Join(errs...))
}
