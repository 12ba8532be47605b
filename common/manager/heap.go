package manager

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// ballast is how much garbage may gather in the heap, in bytes, beside as much as is in use there. Of what a
// controller decodes little stays, so that with few objects it would collect every few megabytes, which took a tenth
// of its CPU time where many jobs started.
const ballast = 24 << 20

// withBallast calls do with a ballast in the heap. The collector counts it, and starts when the heap has doubled; but
// it takes no memory of the machine, since nobody touches it. GOGC means what it always does; GOMEMLIMIT and the
// metrics of the heap include the ballast.
func withBallast(do func() error) error {
	untouched := make([]byte, ballast)
	defer runtime.KeepAlive(untouched)
	return do()
}

const (
	// memoryLimitVariable is the environment variable with the memory limit of the container, in bytes. The Deployment
	// sets it.
	memoryLimitVariable = "MEMORY_LIMIT"
	// memoryShare is how much of that the program should use, in percent. The rest is for what the Go runtime does not
	// count, and for what is allocated while the collector runs.
	memoryShare = 80
)

// limitMemory makes the collector run more often as the program comes near the memory limit of its container. Without
// that, the heap may double before it is collected, and the kernel ends a program that needs half of its limit.
// GOMEMLIMIT has precedence. It returns an error if the environment variable is no number of bytes.
func limitMemory() error {
	limit := os.Getenv(memoryLimitVariable)
	if limit == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	bytes, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("the environment variable %s must be the memory limit of the container in bytes, got %q",
			memoryLimitVariable, limit)
	}
	// The Go runtime counts the ballast, and the container does not.
	debug.SetMemoryLimit(bytes/100*memoryShare + ballast)
	return nil
}
