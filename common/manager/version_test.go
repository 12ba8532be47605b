package manager

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tensorstack.dev/jobs/common/version"
)

func TestVersionFlagPrintsTheBuild(t *testing.T) {
	t.Parallel()
	cmd := Command(Program{Name: "test-controller"})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("test-controller version "+version.Own().String()+"\n", out.String()); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
}

// The reference of flags lists a flag only once if all controllers have it with the same usage. So the usage must not
// contain the name of the controller.
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
	build := version.Build{Version: "v0.1.0", Revision: "1cc8f15", GoVersion: "1.26.8"}
	if err := registerBuildInfo(registry, build); err != nil {
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
