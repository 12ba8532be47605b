package manager

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"tensorstack.dev/jobs/common/version"
)

// registerBuildInfo registers the metric tensorstack_build_info, which identifies the running build.
// docs/operate/metrics.md describes it.
func registerBuildInfo(registry prometheus.Registerer, b version.Build) error {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tensorstack_build_info",
		Help:        "Always 1. The labels are the version, the revision and the Go version of the controller.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	info.Set(1)
	var again prometheus.AlreadyRegisteredError
	// The metric can be registered already, because a test can run several controllers in one process.
	if err := registry.Register(info); err != nil && !errors.As(err, &again) {
		return err
	}
	return nil
}
