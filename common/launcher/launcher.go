// Package launcher reads in the output of a replica which of its processes failed first: what torchrun and the agent of
// a DeepSpeed job report of their ranks, and what Python prints of an exception. The output is untrusted text, and its
// beginning may be cut off. A program that prints a false report blames a process of its own job.
package launcher

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"tensorstack.dev/jobs/common/internal/compare"
)

// Report is what the output of a replica tells about its failure. The zero value tells nothing.
type Report struct {
	// Rank of the process that failed first. Nil if the output does not tell.
	Rank *int32
	// ExitCode of that process; if a signal ended it, the number of the signal below zero. Nil if the output does not
	// tell.
	ExitCode *int32
	// Host that the process ran on, if the launcher names it. Otherwise empty.
	Host string
	// Time when the launcher saw the failure, by the clock of its node. The output does not name its time zone: UTC is
	// assumed. Zero if the output does not tell.
	Time time.Time
	// LostPeers reports whether the process only lost the connection to its peers, so that it did not fail first.
	LostPeers bool
	// IsUnclear reports whether a launcher lists processes and the output does not tell why the first of them failed,
	// so that an earlier part of the output may.
	IsUnclear bool
	// Text is the part of the output that matters, and no longer than the output.
	Text string
}

// Read returns what the output tells.
func Read(output string) Report {
	lines := strings.Split(output, "\n")
	report := Report{Text: output}
	host, code, lines, hasAgent := cutAgentReport(lines)
	if hasAgent {
		report.Host, report.ExitCode = host, &code
	}
	all := readFailures(lines)
	if len(all) == 0 {
		return report
	}
	first := slices.MinFunc(all, failure.compare)
	report.Rank, report.Time, report.LostPeers = first.rank, first.time, first.kind == lostPeers
	report.ExitCode = cmp.Or(first.exitCode, report.ExitCode)
	if slices.ContainsFunc(all, func(f failure) bool { return f.isListed }) {
		report.IsUnclear = first.kind >= unknown
		for _, f := range all {
			if report.Time.IsZero() || f.isListed && f.time.Before(report.Time) {
				report.Time = f.time
			}
		}
		report.Text = strings.Join(first.lines, "\n")
	}
	if Tells(report.ExitCode) {
		report.LostPeers = false
	}
	return report
}

// Tells reports whether the exit code is one that no process has that only lost its peers: it is neither that of an
// exception, nor of SIGABRT, by which libraries end a process, nor of SIGTERM, by which launchers do. A signal is below
// zero, or above 128 as shells count it. Nil tells nothing.
func Tells(exitCode *int32) bool {
	return exitCode != nil && !slices.Contains([]int32{0, 1, -6, 128 + 6, -15, 128 + 15}, *exitCode)
}

// kind is how well a failure explains itself.
type kind int

const (
	told      kind = iota // by an exit code or a signal of its own
	raised                // an exception that is not about peers
	unknown               // nothing is known of it
	lostPeers             // it lost the connection to its peers
)

// failure is one process that failed.
type failure struct {
	rank     *int32
	exitCode *int32
	time     time.Time
	kind     kind
	lines    []string
	isListed bool // by a launcher
	isRoot   bool // by the opinion of the launcher
}

// compare orders failures by how likely each was the first.
func (f failure) compare(other failure) int {
	return cmp.Or(
		cmp.Compare(f.kind, other.kind),
		compareTimes(f.time, other.time),
		compare.FalseFirst(other.isRoot, f.isRoot),
	)
}

// compareTimes compares two times as far as both are known.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return a.Compare(b)
}

// readFailures returns the processes that failed as the output has it: those that a launcher lists, each with the
// exception that it printed, and the exceptions of unknown processes.
func readFailures(lines []string) []failure {
	listed, begin, firstRank := readTorchrun(lines)
	if len(listed) == 0 {
		listed = readRanks(lines)
	}
	var others []failure
	lost := 0
	for _, e := range readExceptions(lines[:begin]) {
		e.rank = cmp.Or(e.rank, e.globalRank(firstRank))
		if e.kind == lostPeers && e.rank == nil {
			lost++
		}
		i := slices.IndexFunc(listed, func(f failure) bool { return e.rank != nil && *f.rank == *e.rank })
		switch {
		case i < 0:
			others = append(others, e.failure)
		case listed[i].kind == unknown:
			listed[i].kind = e.kind
			listed[i].lines = slices.Concat(e.lines, listed[i].lines)
		}
	}
	// Where each of the listed processes may have printed one of the exceptions, all have lost their peers.
	if len(listed) > 0 && lost >= len(listed) && lost == len(others) {
		for i := range listed {
			if listed[i].kind == unknown {
				listed[i].kind = lostPeers
			}
		}
	}
	return append(listed, others...)
}

// kindOf returns how well a process that a launcher lists explains itself: by its exit code, or by the exception that
// is listed with it.
func kindOf(exitCode *int32, lines []string) kind {
	if Tells(exitCode) {
		return told
	}
	recorded := make([]string, 0, len(lines))
	for _, line := range lines {
		recorded = append(recorded, strings.TrimPrefix(line, "traceback : "))
	}
	if exceptions := readExceptions(recorded); len(exceptions) > 0 {
		return exceptions[len(exceptions)-1].kind
	}
	return unknown
}

// number returns the number, or nil if it is not one that a rank or an exit code can have.
func number(n int) *int32 {
	if n < math.MinInt16 || n > math.MaxInt32 {
		return nil
	}
	return new(int32(n))
}
