// The skewed-controller is the pytorch-controller with a clock that is off by $CLOCK_OFFSET. The end-to-end tests use
// it.
package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
)

// skewed is a clock that is off by an offset.
type skewed struct {
	clock.RealClock
	offset time.Duration
}

// Now returns the time of the skewed clock.
func (s skewed) Now() time.Time { return s.RealClock.Now().Add(s.offset) }

// Since returns the time that has passed since t, which is a time of the skewed clock.
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func main() {
	options := controller.DefaultOptions()
	if offset := os.Getenv("CLOCK_OFFSET"); offset != "" { // the init containers of replicas have no offset
		skew, err := time.ParseDuration(offset)
		if err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		options.Clock = skewed{offset: skew}
	}
	manager.Main(manager.JobProgram(pytorch.Controller(), options))
}
