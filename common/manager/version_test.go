package manager

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
		want              build
	}{
		"an image has the version and the revision that the linker set": {
			version: "v0.1.0", revision: "1cc8f15", info: cloned, want: build{"v0.1.0", "1cc8f15", goVersion},
		},
		"go install sets the version of the module": {info: installed, want: build{"v0.2.0", "unknown", goVersion}},
		"go build sets the revision":                {info: cloned, want: build{"(devel)", "cc1f673", goVersion}},
		"a test binary has no version and no revision": {
			info: &debug.BuildInfo{}, want: build{"unknown", "unknown", goVersion},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := buildOf(tc.version, tc.revision, tc.info)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(build{})); diff != "" {
				t.Errorf("unexpected build (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionFlagPrintsTheBuild(t *testing.T) {
	t.Parallel()
	cmd := Command(Program{Name: "test-controller"})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("test-controller version "+ownBuild().String()+"\n", out.String()); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
}

// The reference of flags lists a flag once if all controllers have it with the same usage.
func TestTheUsageOfTheVersionFlagNamesNoController(t *testing.T) {
	t.Parallel()
	flag := Command(Program{Name: "test-controller"}).Flags().Lookup("version")
	if flag == nil || strings.Contains(flag.Usage, "test-controller") {
		t.Errorf("the flag is %+v, want a usage that names no controller", flag)
	}
}

func TestBuildInfoIsAMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if err := registerBuildInfo(registry, build{"v0.1.0", "1cc8f15", "1.26.8"}); err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP tensorstack_build_info Always 1. The labels are the version, the revision and the Go version of the controller.
# TYPE tensorstack_build_info gauge
tensorstack_build_info{goversion="1.26.8",revision="1cc8f15",version="v0.1.0"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
