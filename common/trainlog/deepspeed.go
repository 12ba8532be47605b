package trainlog

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// When the training fails, the agent that runs the launcher of a DeepSpeed job prints which worker failed
// (agentReport), and then the last output of this worker. The agent of the worker prints which rank of the worker
// failed first (rankReport). Before each run of the launcher, the agent prints launchReport.
var (
	agentReport = regexp.MustCompile(`the training failed on (\S{1,253}): exit code (\d{1,3}) \(the launcher: \d+\)` +
		`(; what it printed last:)?$`)
	launchReport = regexp.MustCompile(`^agent: running the launcher: `)
	rankReport   = regexp.MustCompile(`rank (\d{1,9}) failed first on this worker: exit code (-?\d{1,3})$`)
)

// LaunchReport returns the line that the agent of a DeepSpeed job prints before it runs a launcher. The output before
// the line is from an earlier run, whose failure has not ended the job.
func LaunchReport(program string) string { return "running the launcher: " + program }

// AgentReport returns the report of a DeepSpeed job's agent about the worker that failed. The argument launcher is
// the exit code of the launcher. The argument printed is the last output of the worker, which ends the report.
func AgentReport(host string, exitCode, launcher int, printed string) string {
	line := fmt.Sprintf("the training failed on %s: exit code %d (the launcher: %d)", host, exitCode, launcher)
	if printed == "" {
		return line
	}
	return line + "; what it printed last:\n" + printed
}

// RankReport returns the line that the agent of a worker, or the supervisor of torchrun, prints about the rank that
// failed first. If a signal ended the rank, the exit code is the negative number of the signal.
func RankReport(rank, exitCode int) string {
	return fmt.Sprintf("rank %d failed first on this worker: exit code %d", rank, exitCode)
}

// cutEarlierRuns returns the lines after the last launch report. Without one, it returns all lines.
func cutEarlierRuns(lines []string) (rest []string, found bool) {
	for i, line := range slices.Backward(lines) {
		if launchReport.MatchString(line) {
			return lines[i+1:], true
		}
	}
	return lines, false
}

// cutAgentReport returns the host and the exit code of the last agent report, and the lines after it. Without a report,
// it returns all lines.
func cutAgentReport(lines []string) (host string, exitCode int32, rest []string, found bool) {
	for i, line := range slices.Backward(lines) {
		if m := agentReport.FindStringSubmatch(line); m != nil {
			code, _ := strconv.Atoi(m[2])
			return m[1], int32(code), lines[i+1:], true //nolint:gosec // three digits
		}
	}
	return "", 0, lines, false
}

// readRanks returns the rank that failed first according to the agent of a worker. If the agent has printed several
// lines about such a rank, the last one counts. The result is empty if there is none.
func readRanks(lines []string) (failures []failure) {
	for _, line := range lines {
		m := rankReport.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rank, _ := strconv.Atoi(m[1])
		code, _ := strconv.Atoi(m[2])
		if code != 0 {
			f := failure{rank: number(rank), exitCode: number(code), isListed: true}
			f.kind = kindOf(f.exitCode, nil)
			failures = []failure{f}
		}
	}
	return failures
}
