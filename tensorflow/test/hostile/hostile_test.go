// Package hostile_test sends thousands of unusual jobs to a real API server, by dry run. It needs much CPU time, so it
// is a separate package, which runs in parallel with others.
package hostile_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/tensorflow"
)

var (
	jobs = flag.Int("jobs", 300, "number of jobs to send")
	seed = flag.Uint64("seed", rand.Uint64(), "seed of the random choice of jobs")
)

func TestAPIServerAcceptsTheObjectsOfEveryAcceptedJob(t *testing.T) {
	integration.AskAboutOddJobs(t, tensorflow.Controller(), "t9k-tensorflow", *jobs, *seed, "../../testdata/*.yaml")
}
