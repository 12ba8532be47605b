package manager

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// Not parallel: the limit is that of the process.
func TestTheMemoryLimitFollowsTheContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, gomemlimit string
		want              int64
		wantErr           string
	}{
		"it is a share of the limit, beside the ballast": {limit: "536870900", want: 429496720 + 24<<20},
		"GOMEMLIMIT has precedence": {
			limit: "536870900", gomemlimit: "1GiB", want: math.MaxInt64,
		},
		"there is none without the variable": {want: math.MaxInt64},
		"a limit must be a number": {
			limit: "512Mi", want: math.MaxInt64,
			wantErr: `MEMORY_LIMIT must be the memory limit of the container in bytes, got "512Mi"`,
		},
		"a limit must be more than nothing": {limit: "0", want: math.MaxInt64, wantErr: `got "0"`},
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
				t.Errorf("it returned %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// Not parallel: what others allocate would count.
func TestTheBallastTakesNoMemoryOfTheMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	debug.FreeOSMemory()
	before := resident(t)
	_ = withBallast(func() error {
		if grown := resident(t) - before; grown > ballast/2 {
			t.Errorf("the process has grown by %d bytes, want less than half of the ballast of %d", grown, ballast)
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
