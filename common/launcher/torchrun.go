package launcher

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// torchrun prints at its end, since torch 1.9, as an exception of its own:
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
// It lists the processes that it found ended when it looked, in no order: it looks every 5 s before torch 2.4 and every
// 0.1 s since. A process that it did not see end by then is missing. The time is when it looked, or that of the
// exception if the process wrote an error file, which takes the decorator @record; the traceback is then the exception.
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

// maxListed is how many processes of a report are read, from its end: a node has no more.
const maxListed = 64

// readTorchrun returns the processes that the last report of torchrun lists, the line in which what torchrun itself
// prints begins, and the rank of the first process of the node.
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
			failures, isRoot, begin = nil, false, i // what it reported of an earlier attempt is past
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

// readField reads a line of the report about a process. It returns the rank of the first process of the node if the
// line tells.
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

// ownLines returns the line in which what torchrun itself prints begins, before the given line of its exception, and
// the time of day in the first of its log lines, which have one since torch 2.3. The traceback of the exception, or its
// end, comes right before.
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

// precise returns the time with the fraction of the second that the log line has, if it was written in the same second.
func precise(t time.Time, clock string) time.Time {
	of, err := time.Parse("15:04:05", clock)
	if err != nil || of.Hour() != t.Hour() || of.Minute() != t.Minute() || of.Second() != t.Second() {
		return t
	}
	return t.Add(time.Duration(of.Nanosecond()))
}
