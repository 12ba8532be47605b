package manager

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// This test is not parallel, because the limit applies to the process.
func TestTheMemoryLimitFollowsTheContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, gomemlimit string
		want              int64
		wantErr           string
	}{
		"the limit is 80% of the container's limit plus the ballast": {limit: "536870900", want: 429496720 + 24<<20},
		"GOMEMLIMIT takes precedence": {
			limit: "536870900", gomemlimit: "1GiB", want: math.MaxInt64,
		},
		"there is no limit without the variable": {want: math.MaxInt64},
		"a limit with a unit is an error": {
			limit: "512Mi", want: math.MaxInt64,
			wantErr: `MEMORY_LIMIT must be the memory limit of the container in bytes, got "512Mi"`,
		},
		"a limit of 0 is an error": {limit: "0", want: math.MaxInt64, wantErr: `got "0"`},
	} {
		t.Run(name, func(t *testing.T) {
			before := debug.SetMemoryLimit(math.MaxInt64)
			defer debug.SetMemoryLimit(before)
			t.Setenv("MEMORY_LIMIT", tc.limit)
			t.Setenv("GOMEMLIMIT", tc.gomemlimit)
			err := limitMemory()
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("the limit is %d, want %d", got, tc.want)
			}
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("the error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// When the Go runtime reuses memory, it clears the memory first, and so touches it. A controller allocates the
// ballast when it starts, before any memory can be reused. The test does the same: it allocates the ballast in a
// process that has run no other test.
func TestTheBallastUsesNoPhysicalMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs /proc")
	}
	const inNewProcess = "TEST_BALLAST"
	if os.Getenv(inNewProcess) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inNewProcess+"=yes")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	before := resident(t)
	_ = withBallast(func() error {
		if grown := resident(t) - before; grown > ballast/2 {
			t.Errorf("the process has grown by %d bytes, want at most half of the ballast of %d bytes", grown, ballast)
		}
		return nil
	})
}

// resident returns the resident memory of the process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(content))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
