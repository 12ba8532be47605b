// Package trainlog determines from the output of a replica which of its processes failed first. It parses the reports
// of torchrun and of the agents of DeepSpeed jobs, and the tracebacks of Python. The output is untrusted text, and
// its beginning can be cut off. A program that prints a false report only affects its own job.
package trainlog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tensorstack.dev/jobs/common/internal/compare"
)

// Report is the information about a failure in the output of a replica. The zero value is empty.
type Report struct {
	// Rank of the process that failed first. Nil if unknown.
	Rank *int32
	// ExitCode of that process. If a signal ended the process, it is the negative number of the signal. Nil if unknown.
	ExitCode *int32
	// Host of the process, if the launcher names it. Empty if unknown.
	Host string
	// Time when the launcher saw the failure or the program recorded it, by the clock of the node. The output does not
	// contain the time zone, so UTC is assumed. Zero if unknown.
	Time time.Time
	// LostPeers reports whether the process only lost the connection to its peers, so that another process failed
	// first.
	LostPeers bool
	// IsFirst reports whether no process of another replica failed earlier, as the supervisors of all replicas know.
	IsFirst bool
	// IsUnclear reports whether a launcher lists failed processes, but the output does not contain the reason for the
	// first of these failures. An earlier part of the output might contain the reason.
	IsUnclear bool
	// LacksOutput reports whether a launcher lists failed processes, but the output of these processes is missing or cut
	// off. An earlier part of the replica's output might contain it.
	LacksOutput bool
	// Text is the relevant part of the output, as a terminal shows it: without escape sequences and control characters,
	// and with the last state of a progress bar. It is at most as long as the output.
	Text string
}

// Read parses the output of a replica.
func Read(output string) Report {
	report := Report{Text: shown(output)}
	lines, hasLaunch := cutEarlierRuns(strings.Split(report.Text, "\n"))
	if rest := withoutFirstReport(lines); len(rest) < len(lines) {
		report.IsFirst, report.Text, lines = true, strings.Join(rest, "\n"), rest
	}
	host, code, lines, hasAgent := cutAgentReport(lines)
	if hasAgent {
		report.Host, report.ExitCode = host, &code
	}
	if printed := strings.Join(lines, "\n"); (hasAgent || hasLaunch) && printed != "" {
		report.Text = printed
	}
	all, printed := readFailures(lines)
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
		text := first.lines
		if first.kind != raised && first.kind != lostPeers { // the reason is in the output before the launcher's list
			lacksStart := isCut(output) && !hasAgent && !hasLaunch
			if len(printed) > 0 && lacksStart {
				printed = printed[1:] // the beginning of the first line is missing
			}
			printed = withoutPeers(printed, first, all)
			text = slices.Concat(printed, text)
			report.LacksOutput = lacksStart || strings.Join(printed, "") == "" && !hasAgent
		}
		report.Text = strings.Join(text, "\n")
	}
	if IsOwnFault(report.ExitCode) {
		report.LostPeers = false
	}
	return report
}

// kubeletBytes is the number of bytes that the kubelet keeps from the end of an output.
const kubeletBytes = 2048

// isCut reports whether the output is about as long as the kubelet's limit, so that its beginning can be missing. The
// kubelet drops bytes that are not valid UTF-8, so an output that it has cut can be a few bytes shorter than the
// limit.
func isCut(output string) bool {
	return len(output) > kubeletBytes-utf8.UTFMax && len(output) <= kubeletBytes
}

// withoutPeers returns the lines of the output that can be about the first failure. It omits reports of agents about
// a rank, lines of other ranks, and the exceptions of processes that only lost their peers.
func withoutPeers(lines []string, first failure, all []failure) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		of := newException(prefix.FindString(line)).rank
		isOther := of != nil && first.rank != nil && *of != *first.rank
		return isOther || rankReport.MatchString(line) || slices.ContainsFunc(all, func(f failure) bool {
			return f.kind == lostPeers && slices.Contains(f.lines, line)
		})
	})
}

// IsOwnFault reports whether the exit code rules out that the process only lost its peers. A process that lost its
// peers exits with the code of an exception, of SIGABRT (sent by libraries) or of SIGTERM (sent by launchers). The code
// of a signal is its negative number or, by the convention of shells, 128 plus its number. IsOwnFault returns false for
// nil and 0.
func IsOwnFault(exitCode *int32) bool {
	return exitCode != nil && !slices.Contains([]int32{0, 1, -6, 128 + 6, -15, 128 + 15}, *exitCode)
}

// kind classifies a failure by its cause. A lower kind is more likely to be the root cause.
type kind int

const (
	ownCode   kind = iota // an exit code or a signal that a lost peer does not explain
	raised                // an exception that is not about peers
	unknown               // an unknown cause
	lostPeers             // a lost connection to peers
)

// failure is one process that failed.
type failure struct {
	rank     *int32
	exitCode *int32
	time     time.Time
	kind     kind
	lines    []string
	isListed bool // whether a launcher lists the process
	isRoot   bool // whether the launcher names it as the root cause
}

// compare orders failures by likelihood of being the root cause, the likeliest first.
func (f failure) compare(other failure) int {
	return cmp.Or(
		cmp.Compare(f.kind, other.kind),
		compareTimes(f.time, other.time),
		compare.FalseFirst(other.isRoot, f.isRoot),
	)
}

// compareTimes compares two times. An unknown time equals every other time.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return a.Compare(b)
}

// readFailures returns the failed processes. The processes that a launcher lists come first. If the list does not
// show the cause of a failure, the kind of the failure comes from the exception that the process printed. After the
// listed processes come other processes that printed an exception. The second result contains the lines before those
// that torchrun itself printed.
func readFailures(lines []string) (all []failure, printed []string) {
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
	// An exception in the list others can be from any listed process if it has no rank. The listed processes of unknown
	// kind have lost their peers under two conditions: all exceptions in the list have no rank and are about lost peers,
	// and there are at least as many of them as listed processes.
	if len(listed) > 0 && lost >= len(listed) && lost == len(others) {
		for i := range listed {
			if listed[i].kind == unknown {
				listed[i].kind = lostPeers
			}
		}
	}
	return append(listed, others...), lines[:begin]
}

// kindOf returns the kind of the failure of a listed process, from its exit code or from the exception that is listed
// with the process.
func kindOf(exitCode *int32, lines []string) kind {
	if IsOwnFault(exitCode) {
		return ownCode
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

// number returns a pointer to the number, or nil if the number cannot be a rank or an exit code.
func number(n int) *int32 {
	if n < math.MinInt16 || n > math.MaxInt32 {
		return nil
	}
	return new(int32(n))
}
