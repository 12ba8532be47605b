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

// The linker sets these; see hack/build.sh.
var linkedVersion, linkedRevision string

// build says which build of a controller this process is.
type build struct{ version, revision, goVersion string }

// ownBuild returns what the linker was told. A controller that is built in another way, such as by `go install`, has
// its version from the Go toolchain.
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

// String is what --version prints after the name of the controller.
func (b build) String() string {
	return fmt.Sprintf("%s (revision %s, Go %s)", b.version, b.revision, b.goVersion)
}

// registerBuildInfo lets Prometheus know what runs. docs/metrics.md describes it for those who watch it.
func registerBuildInfo(registry prometheus.Registerer, b build) error {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tensorstack_build_info",
		Help:        "1, with what the controller was built from.",
		ConstLabels: prometheus.Labels{"version": b.version, "revision": b.revision, "goversion": b.goVersion},
	})
	info.Set(1)
	var again prometheus.AlreadyRegisteredError
	// a test runs several controllers in one process
	if err := registry.Register(info); err != nil && !errors.As(err, &again) {
		return err
	}
	return nil
}
