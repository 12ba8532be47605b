package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// figure is something that is measured.
type figure struct {
	// name by which it is printed.
	name string
	// about says what it is.
	about string
	unit  string
	// bar is what it may be at most; 0 is that there is no bar, unless zero says that it may be nothing.
	bar  float64
	zero bool
	// exact says that it is the same on any machine, so that a run fails if the bar is not met.
	exact bool
}

// figures are all that there are, in the order of the table.
var figures = []figure{
	{name: "jobs-time", unit: "s", about: "1,000 jobs of 4 replicas, from the first create to all Succeeded"},
	{name: "batch-job-jobs-time", unit: "s", about: "the same by batch/v1 Job"},
	{
		name: "waiting-batch-job-jobs-time", unit: "s",
		about: "the same by batch/v1 Job whose pods wait for the leader's name, too",
	},
	{name: "floor-jobs-time", unit: "s", about: "the same by the floor"},
	{
		name: "jobs-to-batch-job", unit: "ratio", bar: 0.95, about: "1,000 jobs of 4 replicas: time, to that of batch/v1 Job",
	},
	{name: "jobs-to-waiting-batch-job", unit: "ratio", about: "the same, to that of batch/v1 Job whose pods wait"},
	{name: "jobs-to-floor", unit: "ratio", bar: 1.15, about: "1,000 jobs of 4 replicas: time, to that of the floor"},
	{name: "replicas-time", unit: "s", about: "1 job of 1,000 replicas, from its create to that of the last pod"},
	{name: "batch-job-replicas-time", unit: "s", about: "the same by batch/v1 Job"},
	{name: "waiting-batch-job-replicas-time", unit: "s", about: "the same by batch/v1 Job whose pods wait"},
	{
		name: "replicas-to-batch-job", unit: "ratio", bar: 0.8,
		about: "1 job of 1,000 replicas, all pods created: time, to that of batch/v1 Job",
	},
	{name: "replicas-to-waiting-batch-job", unit: "ratio", about: "the same, to that of batch/v1 Job whose pods wait"},
	{
		name: "writes-per-job", unit: "writes", bar: 9, exact: true,
		about: "writes of the controller for a job of 4 replicas, without events",
	},
	{name: "batch-job-writes-per-job", unit: "writes", about: "the same by batch/v1 Job"},
	{name: "events-per-job", unit: "events", bar: 4, exact: true, about: "events of a job of 4 replicas"},
	{
		name: "idle-writes", unit: "writes", zero: true, exact: true,
		about: "writes while jobs run as gangs and nothing happens, of the pytorch-controller and the scheduler-controller",
	},
	{
		name: "resync-writes", unit: "writes", zero: true, exact: true,
		about: "writes after both are restarted, so that they look at all anew",
	},
	{name: "growth", unit: "ratio", bar: 1.1, about: "time of 10,000 jobs, to 10 times that of 1,000, 200 at a time"},
	{name: "batch-job-growth", unit: "ratio", about: "the same of batch/v1 Job"},
	{
		name: "memory", unit: "MiB", bar: 150,
		about: "resident memory of the controller with 5,000 pods of its own and 50,000 of others, at most",
	},
	{name: "cpu", unit: "s", about: "CPU time of the controller for 1,000 jobs of 4 replicas"},
	{
		name: "cpu-to-batch-job", unit: "ratio", bar: 0.7,
		about: "CPU time of the controller, to that of the controller of batch/v1 Jobs",
	},
	{name: "cpu-to-waiting-batch-job", unit: "ratio", about: "the same, if the pods of batch/v1 Jobs wait"},
	{
		name: "replacement-p99", unit: "s", bar: 1,
		about: "from the failure of one replica to the create of its replacement, 99th percentile, 1,000 jobs running",
	},
	{name: "replacement-burst-p99", unit: "s", about: "the same while 1,000 more jobs are created"},
	{
		name: "neighbour-p99", unit: "s", bar: 2,
		about: "from a job to its last pod while another namespace creates 1,000 jobs, 99th percentile",
	},
	{name: "neighbour-p50", unit: "s", about: "the same, median"},
	{name: "neighbour-max", unit: "s", about: "the same, at most"},
	{name: "neighbour-jobs", unit: "jobs", about: "the same, how many there were, one after the other"},
	{
		name: "failover-release", unit: "s", bar: 3,
		about: "from a leader that ends to the first useful write of the next, at most, 1,000 jobs running",
	},
	{
		name: "failover-crash", unit: "s", bar: 3,
		about: "from the end of a crashed leader's lease to the first useful write of the next, at most, 1,000 jobs running",
	},
}

// met says that a value is not above the bar.
func (f figure) met(value float64) bool {
	return !f.hasBar() || value <= f.bar
}

func (f figure) hasBar() bool { return f.bar > 0 || f.zero }

// report is what has been measured, by the name of the figure.
type report map[string]float64

// line is how a figure is printed.
func line(f figure, value float64) string {
	return fmt.Sprintf("bench: %s %s %s", f.name, number(value), f.unit)
}

// number writes three digits, and no more than are known.
func number(value float64) string {
	if value >= 100 || value == float64(int64(value)) {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// table writes what was measured in Markdown.
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

// failed returns the exact figures whose bar is not met, as they are printed.
func (r report) failed() []string {
	var failed []string
	for _, f := range figures {
		if value, ok := r[f.name]; ok && f.exact && !f.met(value) {
			failed = append(failed, fmt.Sprintf("%s, and the bar is %s", line(f, value), number(f.bar)))
		}
	}
	return failed
}

// Lines of a document between which the results are.
const (
	beginResults = "<!-- What follows is written by `make bench`. -->\n"
	endResults   = "<!-- End of what is written by `make bench`. -->\n"
)

// writeInto replaces the results in a document. It returns an error if the document has no place for them.
func writeInto(document, results string) error {
	content, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, hasBegin := bytes.Cut(content, []byte(beginResults))
	_, after, hasEnd := bytes.Cut(rest, []byte(endResults))
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no lines %q and %q, between which the results go", document,
			strings.TrimSpace(beginResults), strings.TrimSpace(endResults))
	}
	content = slices.Concat(before, []byte(beginResults), []byte("\n"+results+"\n"), []byte(endResults), after)
	return os.WriteFile(document, content, 0o600)
}
