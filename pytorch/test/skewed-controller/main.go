// The skewed-controller is the pytorch-controller with a clock that is off by $CLOCK_OFFSET. The end-to-end tests use
// it.
package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

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
	if os.Getenv("CLOCK_OFFSET") == "" {
		// Without an offset, this program is the init container of a replica, which only waits for the leader.
		manager.Main(manager.JobProgram(pytorch.Controller(), controller.DefaultOptions()))
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run() error {
	offset, err := time.ParseDuration(os.Getenv("CLOCK_OFFSET"))
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	options := controller.DefaultOptions()
	options.Clock = skewed{offset: offset}
	logger := zap.New()
	ctrl.SetLogger(logger)
	return manager.Run(signals.SetupSignalHandler(), manager.JobProgram(pytorch.Controller(), options), config,
		manager.DefaultOptions(), logger)
}
