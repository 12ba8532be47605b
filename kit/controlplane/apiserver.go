package controlplane

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// How often and how long StartAPIServer tries to start an API server. Beside other tests, a start takes much longer
// than alone.
const (
	startTries   = 3
	startTimeout = 2 * time.Minute
)

// StartAPIServer starts the API server of an environment from newEnvironment, and returns this environment. If the API
// server does not start, StartAPIServer tries it again with another environment, which has other ports. envtest selects
// ports that are free, but until the API server listens, any process can use such a port for a connection. envtest
// retries with the same port. StartAPIServer returns an error with the reasons of all tries.
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
