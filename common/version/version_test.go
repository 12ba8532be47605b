package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuildOf(t *testing.T) {
	t.Parallel()
	goVersion := strings.TrimPrefix(runtime.Version(), "go")
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}}
	cloned := &debug.BuildInfo{
		Main:     debug.Module{Version: "(devel)"},
		Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "cc1f673"}},
	}
	for name, tc := range map[string]struct {
		version, revision string
		info              *debug.BuildInfo
		want              Build
	}{
		"a release has the version and the revision that the linker set": {
			version: "v0.1.0", revision: "1cc8f15", info: cloned, want: Build{"v0.1.0", "1cc8f15", goVersion},
		},
		"go install sets the version of the module": {info: installed, want: Build{"v0.2.0", "unknown", goVersion}},
		"go build sets the revision":                {info: cloned, want: Build{"(devel)", "cc1f673", goVersion}},
		"a test binary has no version and no revision": {
			info: &debug.BuildInfo{}, want: Build{"unknown", "unknown", goVersion},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := buildOf(tc.version, tc.revision, tc.info)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected build (-want +got):\n%s", diff)
			}
		})
	}
}
