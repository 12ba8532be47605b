package manager

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The linker sets these variables; see hack/build.sh.
var linkedVersion, linkedRevision string

// build identifies a build of a controller.
type build struct{ version, revision, goVersion string }

// ownBuild returns the build of this process, with the version and revision that the linker set. If the linker set
// none, for example with `go install`, they come from the Go toolchain.
func ownBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(linkedVersion, linkedRevision, info)
}

func buildOf(version, revision string, info *debug.BuildInfo) build {
	var committed string
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			committed = s.Value
		}
	}
	const unknown = "unknown"
	return build{
		version:   cmp.Or(version, info.Main.Version, unknown),
		revision:  cmp.Or(revision, committed, unknown),
		goVersion: strings.TrimPrefix(runtime.Version(), "go"),
	}
}

// String returns the text that --version prints after the name of the controller.
func (b build) String() string {
	return fmt.Sprintf("%s (revision %s, Go %s)", b.version, b.revision, b.goVersion)
}

// registerBuildInfo registers the metric tensorstack_build_info, which identifies the running build. docs/metrics.md
// describes it.
func registerBuildInfo(registry prometheus.Registerer, b build) error {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tensorstack_build_info",
		Help:        "Always 1. The labels are the version, the revision and the Go version of the controller.",
		ConstLabels: prometheus.Labels{"version": b.version, "revision": b.revision, "goversion": b.goVersion},
	})
	info.Set(1)
	var again prometheus.AlreadyRegisteredError
	// A test can run several controllers in one process.
	if err := registry.Register(info); err != nil && !errors.As(err, &again) {
		return err
	}
	return nil
}
