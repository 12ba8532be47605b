// Package bench measures the controllers on a real API server with simulated nodes. It compares them with two
// contenders on the same machine: the controller of batch/v1 Jobs, which does the same work, and the floor, which
// does only the work that no controller can avoid. A figure is a measured value. Its bar is the highest acceptable
// value. Times depend on the machine, so where possible, the figure for a speed is the ratio of the controller's time
// to the time of a contender.
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

// Options configure a run.
type Options struct {
	// Repo is the root of the repository.
	Repo string
	// Dir is the folder for logs and configuration files. It must exist.
	Dir string
	// Programs has the paths of the programs that the control planes run.
	Programs simulated.Programs
	// Controllers is the folder with the programs of the controllers.
	Controllers string
	// Quick limits the run to few jobs, and to figures that are the same on any machine.
	Quick bool
	// Only selects measurements by name. Nil selects all.
	Only *regexp.Regexp
	// Profiles is the folder for CPU profiles of the measured controller and of the API server. Empty means no profiles.
	// Profiling slows the controller down.
	Profiles string
	// Document is the file in which Run replaces the results. Empty means none. Run writes the file only if it took all
	// measurements.
	Document string
	// Progress shows the current step.
	Progress *localcluster.Progress
	// Out receives the figures.
	Out io.Writer
}

// scale sets the sizes of the measurements.
type scale struct {
	// jobs is the number of jobs in most measurements, where all jobs run at the same time. The measurement of growth
	// compares a run of manyJobs jobs with runs of this number of jobs. In all these runs, at most jobsAtOnce jobs run
	// at the same time.
	jobs, manyJobs, jobsAtOnce int
	// rounds is the number of races of each contender. largeRounds is the number of large jobs that each contender runs,
	// one after the other. There are more large jobs than races, because a large job takes less time than a race, and
	// the time of a large job varies more. The measured times are medians.
	rounds, largeRounds int
	// manyReplicas is the number of replicas of a large job.
	manyReplicas int32
	// quiet is how long writes are counted while jobs run and nothing changes.
	quiet time.Duration
	// The measurement of memory creates ownJobs jobs, and foreignPods pods that belong to no job.
	ownJobs, foreignPods int
	// profile is the duration of a CPU profile.
	profile time.Duration
	// reportingJobs is the number of jobs that report progress. The field reporting is the duration of the measurement
	// of the controller while these jobs report.
	reportingJobs int
	reporting     time.Duration
	// failures is the number of replicas that fail. failovers is the number of times that the benchmark terminates the
	// leading controller. The benchmark also kills the leading controller as often.
	failures, failovers int
}

var (
	full = scale{
		jobs: 1000, manyJobs: 10_000, jobsAtOnce: 200, rounds: 3, largeRounds: 5, manyReplicas: 1000, quiet: 10 * time.Minute,
		ownJobs: 1250, foreignPods: 50_000, profile: 30 * time.Second, failures: 200, failovers: 3,
		reportingJobs: 5000, reporting: 5 * time.Minute,
	}
	quick = scale{jobs: 20, rounds: 1, quiet: 15 * time.Second, profile: 3 * time.Second}
)

// bench is the state of one run.
type bench struct {
	options  Options
	scale    scale
	progress *localcluster.Progress
	report   report
	// kubernetes is the version of the API server.
	kubernetes string
}

// measurement measures some of the figures.
type measurement struct {
	name string
	// quick is true if Run takes the measurement also with Options.Quick. In a quick run, the measurement records only
	// exact figures.
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
	{name: "progress", take: reports},
	{name: "lists", take: lists},
}

// Run takes the measurements. It prints a line per figure and then the table. If it took all measurements, it writes
// the results into Options.Document. It returns an error if something cannot be measured, or if an exact figure does
// not meet its bar.
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

// record stores the value of a figure and prints it.
func (b *bench) record(name string, value float64) {
	for _, f := range figures {
		if f.name == name {
			b.report[name] = value
			fmt.Fprintln(b.options.Out, line(f, value))
			return
		}
	}
	panic("unknown figure " + name)
}

// describeMachine returns a line with the date, the machine and the versions that the results were measured with.
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
		return "", fmt.Errorf("reading MemTotal in /proc/meminfo: %w", err)
	}
	return fmt.Sprintf("%s, on %d cores (%s) with %d GiB of memory, %s, Kubernetes %s.",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		find(cpus, "model name"), kibibytes>>20, runtime.Version(), b.kubernetes), nil
}
