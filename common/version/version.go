// Package version identifies the build of a program.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// The linker sets these variables; see hack/build.sh.
var linkedVersion, linkedRevision string

// Unknown stands for a version or a revision that a build does not contain.
const Unknown = "unknown"

// Build identifies a build of a program.
type Build struct {
	// Version is the version of the module, such as v0.1.0. A build of a working copy has the version (devel).
	Version string `json:"version"`
	// Revision is the ID of the commit that the program was built from. In a build by hack/build.sh, the suffix -dirty
	// marks uncommitted changes.
	Revision string `json:"revision"`
	// GoVersion is the version of Go, such as 1.26.8.
	GoVersion string `json:"goVersion"`
}

// Own returns the build of this process, with the version and revision that the linker set. If the linker set none, for
// example with `go install`, they come from the Go toolchain.
func Own() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(linkedVersion, linkedRevision, info)
}

func buildOf(version, revision string, info *debug.BuildInfo) Build {
	var committed string
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			committed = s.Value
		}
	}
	return Build{
		Version:   cmp.Or(version, info.Main.Version, Unknown),
		Revision:  cmp.Or(revision, committed, Unknown),
		GoVersion: strings.TrimPrefix(runtime.Version(), "go"),
	}
}

// String returns the build on one line, as --version prints it after the name of a program.
func (b Build) String() string {
	return fmt.Sprintf("%s (revision %s, Go %s)", b.Version, b.Revision, b.GoVersion)
}
