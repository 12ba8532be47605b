package manager

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// ballast is the size of the heap ballast in bytes. With the ballast, the garbage collector starts when there is as
// much garbage as live memory plus ballast. A controller keeps little of the memory that it allocates for decoding.
// Without the ballast, the collector of a controller with few objects would run every few megabytes. In a test in
// which many jobs started, these collections took a tenth of the CPU time.
const ballast = 24 << 20

// withBallast calls the function do while the heap contains the ballast. The garbage collector counts the ballast as
// live memory. The ballast uses no physical memory, because no code touches it. GOGC keeps its meaning. GOMEMLIMIT
// and the metrics of the heap include the ballast.
func withBallast(do func() error) error {
	untouched := make([]byte, ballast)
	defer runtime.KeepAlive(untouched)
	return do()
}

const (
	// memoryLimitVariable is the environment variable with the memory limit of the container, in bytes. The Deployment
	// sets it.
	memoryLimitVariable = "MEMORY_LIMIT"
	// memoryShare is the share of the container's limit that the program should use, in percent. The remaining share is
	// for memory that the Go runtime does not count, and for allocations while the garbage collector runs.
	memoryShare = 80
)

// limitMemory makes the garbage collector run more often when the program comes close to the memory limit of its
// container. Otherwise the heap can double before a collection, so that the kernel might kill a program whose live
// memory is only half of the limit. GOMEMLIMIT takes precedence. limitMemory returns an error if $MEMORY_LIMIT is not
// a positive number of bytes.
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
	// The Go runtime counts the ballast towards this limit, but the kernel does not count it towards the container's
	// limit.
	debug.SetMemoryLimit(bytes/100*memoryShare + ballast)
	return nil
}
