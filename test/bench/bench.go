// Package bench measures the controllers on a real API server with simulated nodes: beside the controller of batch/v1
// Jobs, which does the same work on the same machine, and beside a floor, which does only what cannot be done without.
// What it says of speed is ratios, since times are those of a machine.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

// Options say what to measure.
type Options struct {
	// Repo is the root of the repository.
	Repo string
	// Dir takes what is written on the way. It must exist.
	Dir string
	// Programs are those of the control planes.
	Programs simulated.Programs
	// Controllers is the folder with the programs of the controllers.
	Controllers string
	// Quick measures with few jobs, and only what is the same on any machine.
	Quick bool
	// Only are the measurements to take; nil is all.
	Only *regexp.Regexp
	// Profiles is the folder for profiles of the controller that is measured; empty is none. To take them costs it some of
	// its time.
	Profiles string
	// Document takes the results; empty is none. It is not written unless all was measured.
	Document string
	// Progress says what is done, and Out takes the figures.
	Progress *localcluster.Progress
	Out      io.Writer
}

// scale is how much is measured.
type scale struct {
	// jobs is how many run at once. To see growth, many are run after few, jobsAtOnce of them at once.
	jobs, manyJobs, jobsAtOnce int
	// rounds is how often a race of jobs is run, largeRounds that of one large job, which is short and varies more. The
	// median counts.
	rounds, largeRounds int
	// manyReplicas is how many a large job has.
	manyReplicas int32
	// quiet is how long nothing is written while jobs run.
	quiet time.Duration
	// ownJobs and foreignPods fill the cluster for the measurement of memory.
	ownJobs, foreignPods int
	// profile is how long a profile is taken.
	profile time.Duration
	// failures is how many replicas fail, failovers how often a leader ends in each way.
	failures, failovers int
}

var (
	full = scale{
		jobs: 1000, manyJobs: 10_000, jobsAtOnce: 200, rounds: 3, largeRounds: 5, manyReplicas: 1000, quiet: 10 * time.Minute,
		ownJobs: 1250, foreignPods: 50_000, profile: 30 * time.Second, failures: 200, failovers: 3,
	}
	quick = scale{jobs: 20, rounds: 1, quiet: 15 * time.Second, profile: 3 * time.Second}
)

// bench is one run.
type bench struct {
	options  Options
	scale    scale
	progress *localcluster.Progress
	report   report
	// kubernetes is the version of the API server.
	kubernetes string
}

// measurement takes some of the figures.
type measurement struct {
	name string
	// quick says that it takes exact figures.
	quick bool
	take  func(context.Context, *bench) error
}

var measurements = []measurement{
	{name: "throughput", quick: true, take: throughput},
	{name: "replicas", take: manyReplicas},
	{name: "idle", quick: true, take: idle},
	{name: "failures", take: failures},
	{name: "neighbour", take: neighbour},
	{name: "memory", take: memory},
	{name: "growth", take: growth},
}

// Run measures, prints a line a figure and then the table, and writes the results into the document. It returns an
// error if something cannot be measured, or if the bar of an exact figure is not met.
func Run(ctx context.Context, options Options) error {
	b := &bench{options: options, scale: full, progress: options.Progress, report: report{}}
	if options.Quick {
		b.scale = quick
	}
	whole := !options.Quick
	for _, m := range measurements {
		if options.Quick && !m.quick || options.Only != nil && !options.Only.MatchString(m.name) {
			whole = false
			continue
		}
		b.progress.Printf("measuring %s", m.name)
		if err := m.take(ctx, b); err != nil {
			return fmt.Errorf("measuring %s: %w", m.name, err)
		}
	}
	machine, err := b.describeMachine()
	if err != nil {
		return err
	}
	results := machine + "\n\n" + b.report.table()
	fmt.Fprint(options.Out, "\n", results)
	if whole && options.Document != "" {
		if err := writeInto(options.Document, results); err != nil {
			return err
		}
	}
	if failed := b.report.failed(); len(failed) > 0 {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// record takes down a figure.
func (b *bench) record(name string, value float64) {
	for _, f := range figures {
		if f.name == name {
			b.report[name] = value
			fmt.Fprintln(b.options.Out, line(f, value))
			return
		}
	}
	panic("no figure " + name)
}

// describeMachine says what the results were measured on.
func (b *bench) describeMachine() (string, error) {
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", err
	}
	find := func(content []byte, key string) string {
		for line := range strings.Lines(string(content)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
				return strings.TrimSpace(value)
			}
		}
		return "unknown"
	}
	var kibibytes int64
	if _, err := fmt.Sscanf(find(memory, "MemTotal"), "%d kB", &kibibytes); err != nil {
		return "", fmt.Errorf("reading the size of the memory: %w", err)
	}
	return fmt.Sprintf("%s, on %d cores (%s) with %d GiB of memory, %s, Kubernetes %s.",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		find(cpus, "model name"), kibibytes>>20, runtime.Version(), b.kubernetes), nil
}
