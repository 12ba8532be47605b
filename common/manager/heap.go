package manager

import "runtime"

// ballast is how much garbage may gather in the heap, in bytes, beside as much as is in use there. Of what a controller decodes little
// stays, so that with few objects it would collect every few megabytes, which took a tenth of its CPU time where many jobs started.
const ballast = 24 << 20

// withBallast calls do with a ballast in the heap. The collector counts it, and starts when the heap has doubled; but it takes no memory of
// the machine, since nobody touches it. GOGC means what it always does; GOMEMLIMIT and the metrics of the heap
// include the ballast.
func withBallast(do func() error) error {
	untouched := make([]byte, ballast)
	defer runtime.KeepAlive(untouched)
	return do()
}
