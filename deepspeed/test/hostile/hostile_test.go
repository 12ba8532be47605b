// Package hostile_test asks a real API server about thousands of odd jobs. It keeps the processors busy, so that it has
// a package of its own, which runs beside others.
package hostile_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"tensorstack.dev/jobs/deepspeed"
	"tensorstack.dev/jobs/kit/integration"
)

var (
	jobs = flag.Int("jobs", 1000, "how many jobs to ask about")
	seed = flag.Uint64("seed", rand.Uint64(), "what the jobs are drawn from")
)

func TestTheAPIServerTakesWhatTheControllerMakesOfWhatTheCRDAdmits(t *testing.T) {
	integration.AskAboutOddJobs(t, deepspeed.Controller(), "t9k-deepspeed", *jobs, *seed, "../../testdata/*.yaml")
}
