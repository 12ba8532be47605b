package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	listwork "tensorstack.dev/jobs/test/internal/work"
)

// figure is a value that is measured.
type figure struct {
	name string
	// about is the description of the figure in the table.
	about string
	unit  string
	// bar is the highest acceptable value. A bar of 0 means that there is no bar, unless the field zero is true.
	bar float64
	// zero is true if the bar is 0.
	zero bool
	// exact is true if the value is the same on any machine. A run fails if an exact figure does not meet its bar.
	exact bool
}

// figures are all figures in the order of the table.
var figures = []figure{
	{name: "jobs-time", unit: "s", about: "1,000 jobs of 4 replicas, from the first creation to the last success"},
	{name: "batch-job-jobs-time", unit: "s", about: "the same by batch/v1 Job"},
	{
		name: "waiting-batch-job-jobs-time", unit: "s",
		about: "the same by batch/v1 Job whose pods also wait for the name of the leader",
	},
	{name: "floor-jobs-time", unit: "s", about: "the same by the floor"},
	{
		name: "jobs-to-batch-job", unit: "ratio", bar: 0.95,
		about: "1,000 jobs of 4 replicas: time, relative to batch/v1 Job",
	},
	{name: "jobs-to-waiting-batch-job", unit: "ratio", about: "the same, relative to batch/v1 Job whose pods wait"},
	{name: "jobs-to-floor", unit: "ratio", bar: 1.15, about: "1,000 jobs of 4 replicas: time, relative to the floor"},
	{name: "replicas-time", unit: "s", about: "1 job of 1,000 replicas, from its creation to the last pod created"},
	{name: "batch-job-replicas-time", unit: "s", about: "the same by batch/v1 Job"},
	{name: "waiting-batch-job-replicas-time", unit: "s", about: "the same by batch/v1 Job whose pods wait"},
	{
		name: "replicas-to-batch-job", unit: "ratio", bar: 0.8,
		about: "1 job of 1,000 replicas, all pods created: time, relative to batch/v1 Job",
	},
	{name: "replicas-to-waiting-batch-job", unit: "ratio", about: "the same, relative to batch/v1 Job whose pods wait"},
	{
		name: "writes-per-job", unit: "writes", bar: 9, exact: true,
		about: "writes of the controller for a job of 4 replicas, without events",
	},
	{name: "batch-job-writes-per-job", unit: "writes", about: "the same by batch/v1 Job"},
	{name: "events-per-job", unit: "events", bar: 4, exact: true, about: "events of a job of 4 replicas"},
	{
		name: "idle-writes", unit: "writes", zero: true, exact: true,
		about: "writes of the pytorch-controller and the scheduler-controller while jobs run as gangs and nothing happens",
	},
	{
		name: "resync-writes", unit: "writes", zero: true, exact: true,
		about: "writes after both controllers restart and reconcile all objects",
	},
	{
		name: "kueue-idle-writes", unit: "writes", zero: true, exact: true,
		about: "both of these for jobs that Kueue has admitted",
	},
	{
		name: "kueue-admission-writes", unit: "writes", bar: 4, exact: true,
		about: "writes of the controller for a job that Kueue admits, beyond those for the same job without Kueue",
	},
	{
		name: "kueue-restart-writes", unit: "writes", bar: 2, exact: true,
		about: "the same for a restart of all replicas",
	},
	{
		name: "kueue-eviction-writes", unit: "writes", bar: 3, exact: true,
		about: "the same for an eviction and the next admission, beyond those for a pause without Kueue",
	},
	{
		name: "progress-frequent-writes", unit: "writes", zero: true, exact: true,
		about: "writes for a job that reports progress all the time within 30 s of another one, 5,000 jobs running",
	},
	{name: "progress-writes", unit: "writes/s", bar: 30, about: "writes for all of these jobs"},
	{name: "progress-cpu", unit: "cores", bar: 0.5, about: "CPU time of the controller with these jobs, per second"},
	{name: "progress-memory", unit: "MiB", bar: 250, about: "maximum resident memory of the controller with these jobs"},
	{
		name: "growth", unit: "ratio", bar: 1.1,
		about: "time of 10,000 jobs, relative to 10 times the time of 1,000 jobs, 200 at a time",
	},
	{name: "batch-job-growth", unit: "ratio", about: "the same by batch/v1 Job"},
	{
		name: "list-growth", unit: "ratio", bar: listwork.MaxGrowth,
		about: "CPU time for an object when a list of a tenant has 4 times as many items, maximum of all lists",
	},
	{
		name: "memory", unit: "MiB", bar: 150,
		about: "maximum resident memory of the controller with 5,000 pods of its own and 50,000 other pods",
	},
	{name: "cpu", unit: "s", about: "CPU time of the controller for 1,000 jobs of 4 replicas"},
	{
		name: "cpu-to-batch-job", unit: "ratio", bar: 0.7,
		about: "CPU time of the controller, relative to the controller of batch/v1 Jobs",
	},
	{name: "cpu-to-waiting-batch-job", unit: "ratio", about: "the same, if the pods of batch/v1 Jobs wait"},
	{
		name: "replacement-p99", unit: "s", bar: 1,
		about: "from the failure of one replica to the creation of its replacement, 99th percentile, 1,000 jobs running",
	},
	{name: "replacement-burst-p99", unit: "s", about: "the same while 1,000 more jobs are created"},
	{
		name: "neighbour-p99", unit: "s", bar: 2,
		about: "from the creation of a job to its last pod while another namespace creates 1,000 jobs, 99th percentile",
	},
	{name: "neighbour-p50", unit: "s", about: "the same, median"},
	{name: "neighbour-max", unit: "s", about: "the same, maximum"},
	{name: "neighbour-jobs", unit: "jobs", about: "the same, number of jobs, created one after the other"},
	{
		name: "failover-release", unit: "s", bar: 3,
		about: "from the exit of a leader to the next leader's first useful write, maximum, 1,000 jobs running",
	},
	{
		name: "failover-crash", unit: "s", bar: 3,
		about: "the same for a leader that crashes, from the expiry of its lease",
	},
}

// met reports whether a value meets the bar. If there is no bar, it returns true.
func (f figure) met(value float64) bool {
	return !f.hasBar() || value <= f.bar
}

func (f figure) hasBar() bool { return f.bar > 0 || f.zero }

// report maps the name of each measured figure to its value.
type report map[string]float64

// line returns the line that is printed for a figure.
func line(f figure, value float64) string {
	return fmt.Sprintf("bench: %s %s %s", f.name, number(value), f.unit)
}

// number formats a value with three significant digits, or without decimals if the value is at least 100 or a whole
// number.
func number(value float64) string {
	if value >= 100 || value == float64(int64(value)) {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// table returns a Markdown table of the measured figures.
func (r report) table() string {
	var out strings.Builder
	out.WriteString("| figure | | bar | measured |\n|---|---|---|---|\n")
	for _, f := range figures {
		value, ok := r[f.name]
		if !ok {
			continue
		}
		bar, mark := "", ""
		if f.hasBar() {
			bar = "≤ " + number(f.bar)
			if !f.met(value) {
				mark = " **not met**"
			}
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s %s%s |\n", f.name, f.about, bar, number(value), f.unit, mark)
	}
	return out.String()
}

// failed returns a message for each exact figure that does not meet its bar.
func (r report) failed() []string {
	var failed []string
	for _, f := range figures {
		if value, ok := r[f.name]; ok && f.exact && !f.met(value) {
			failed = append(failed, fmt.Sprintf("%s is above the bar of %s", line(f, value), number(f.bar)))
		}
	}
	return failed
}

// beginResults and endResults are the lines around the results in a document.
const (
	beginResults = "<!-- Start of the results. `make bench` writes them. -->\n"
	endResults   = "<!-- End of the results. -->\n"
)

// writeInto replaces the results in a document. It returns an error unless the document has the lines beginResults
// and endResults.
func writeInto(document, results string) error {
	content, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, hasBegin := bytes.Cut(content, []byte(beginResults))
	_, after, hasEnd := bytes.Cut(rest, []byte(endResults))
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s must have the lines %q and %q, which mark the place of the results", document,
			strings.TrimSpace(beginResults), strings.TrimSpace(endResults))
	}
	content = slices.Concat(before, []byte(beginResults), []byte("\n"+results+"\n"), []byte(endResults), after)
	return os.WriteFile(document, content, 0o600)
}
