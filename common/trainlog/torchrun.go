package trainlog

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Since torch 1.9, torchrun exits with an exception of its own that contains this report:
//
//	Failures:
//	[1]:
//	  time      : 2026-11-25_13:26:05
//	  host      : train-worker-0.train.default.svc.cluster.local
//	  rank      : 3 (local_rank: 1)
//	  exitcode  : 3 (pid: 16834)
//	  error_file: <N/A>
//	  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
//	------------------------------------------------------------
//	Root Cause (first observed failure):
//	[0]:
//	  time      : ...
//
// torchrun polls the processes, every 5 s before torch 2.4 and every 0.1 s since. The report lists the processes that
// had ended when torchrun polled, in no particular order. The report lacks all other processes. Its field time is the
// time at which torchrun polled. If the program uses the decorator @record, the process writes an error file. Then
// the fields time and traceback are those of the exception.
var (
	listTitle   = regexp.MustCompile(`^(Failures:|Root Cause \(first observed failure\):)$`)
	listEntry   = regexp.MustCompile(`^\[\d+\]:$`)
	listField   = regexp.MustCompile(`^ {2}(time {6}|rank {6}|exitcode {2}|traceback ): (.*)$`)
	rankField   = regexp.MustCompile(`^(\d+) \(local_rank: (\d+)\)$`)
	codeField   = regexp.MustCompile(`^(-?\d+) +\(pid: \d+\)$`)
	agentError  = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
	agentFailed = regexp.MustCompile(`failed \(exitcode: -?\d+\) local_rank: \d+ \(pid: \d+\) of `)
	agentEnds   = regexp.MustCompile(`Sending process \d+ closing signal SIG`)
	agentClock  = regexp.MustCompile(`^[WE]\d{4} (\d\d:\d\d:\d\d\.\d{1,9}) `)
)

// FirstReport is the line that the supervisor of torchrun prints after the report, if no process of another replica
// failed before the first one in the report.
const FirstReport = "no process of another replica failed earlier"

// withoutFirstReport returns the lines without those that end with FirstReport.
func withoutFirstReport(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasSuffix(line, ": "+FirstReport)
	})
}

// maxListed is the maximum number of processes that are read from the end of the report. No node runs more processes.
const maxListed = 64

// readTorchrun returns the processes in the last report of torchrun, the index of the first line that torchrun itself
// printed, and the rank of the first process of the node. If there is no report, the index is the number of lines,
// and the other results are nil.
func readTorchrun(lines []string) (failures []failure, begin int, firstRank *int32) {
	begin = len(lines)
	isRoot := false
	var f *failure
	end := func() {
		if f != nil && f.rank != nil && f.exitCode != nil {
			f.kind = kindOf(f.exitCode, f.lines)
			failures = append(failures, *f)
			failures = failures[max(0, len(failures)-maxListed):]
		}
		f = nil
	}
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, agentError):
			end()
			failures, isRoot, begin = nil, false, i // drop the report of an earlier attempt
		case listTitle.MatchString(line):
			end()
			isRoot = strings.HasPrefix(line, "Root")
		case listEntry.MatchString(line):
			end()
			begin = min(begin, i)
			f = &failure{isListed: true, isRoot: isRoot}
		case strings.HasPrefix(line, "-----") || strings.HasPrefix(line, "====="):
			end()
		case f != nil:
			f.lines = append(f.lines, strings.TrimPrefix(line, "  "))
			if rank := f.readField(line); rank != nil {
				firstRank = rank
			}
		}
	}
	end()
	if len(failures) == 0 {
		return nil, len(lines), nil
	}
	begin, clock := ownLines(lines, begin)
	for i := range failures {
		failures[i].time = precise(failures[i].time, clock)
	}
	return failures, begin, firstRank
}

// readField reads a line of the report about a process. If the line contains the local rank, readField returns the rank
// of the first process of the node.
func (f *failure) readField(line string) *int32 {
	field := listField.FindStringSubmatch(line)
	if field == nil {
		return nil
	}
	switch name, value := strings.TrimSpace(field[1]), field[2]; name {
	case "time":
		f.time, _ = time.Parse("2006-01-02_15:04:05", value)
	case "rank":
		if m := rankField.FindStringSubmatch(value); m != nil {
			rank, err := strconv.ParseInt(m[1], 10, 32)
			local, err2 := strconv.ParseInt(m[2], 10, 32)
			if err == nil && err2 == nil && rank >= local {
				f.rank = new(int32(rank))
				return number(int(rank - local))
			}
		}
	case "exitcode":
		if m := codeField.FindStringSubmatch(value); m != nil {
			if code, err := strconv.ParseInt(m[1], 10, 16); err == nil && code != 0 {
				f.exitCode = new(int32(code))
			}
		}
	}
	return nil
}

// ownLines returns the index of the first line that torchrun itself printed, and the time of day in torchrun's first
// log line. Since torch 2.3, log lines contain the time. The argument exception is the index of the line that names
// torchrun's exception. Torchrun prints its log lines, then the traceback of the exception, and then that line.
func ownLines(lines []string, exception int) (begin int, clock string) {
	begin = exception
	for begin > 0 && !agentFailed.MatchString(lines[begin]) {
		begin--
	}
	for begin > 0 && agentEnds.MatchString(lines[begin-1]) {
		begin--
	}
	if m := agentClock.FindStringSubmatch(lines[begin]); m != nil {
		clock = m[1]
	}
	return begin, clock
}

// precise adds the fraction of the second from a log line to the time, if the log line is from the same second.
func precise(t time.Time, clock string) time.Time {
	of, err := time.Parse("15:04:05", clock)
	if err != nil || of.Hour() != t.Hour() || of.Minute() != t.Minute() || of.Second() != t.Second() {
		return t
	}
	return t.Add(time.Duration(of.Nanosecond()))
}
