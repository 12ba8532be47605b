package conformance

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes each test of random walks run 10 walks instead of 100, unless the whole suite runs or -rapid.checks
// is given. The seeds differ in each run. With -short, rapid itself runs a fifth of the walks.
func TestMain(m *testing.M) {
	isSet := map[string]bool{}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { isSet[f.Name] = true })
	if !*fullConformance && !testing.Short() && !isSet["rapid.checks"] {
		if err := flag.Set("rapid.checks", "10"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
