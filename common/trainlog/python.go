package trainlog

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// prefix matches the prefix that torch (since 2.2) and torchrun's option --tee add to each line of a process, such as
// "[rank3]: " or "[default1]:".
var prefix = regexp.MustCompile(`^\[([A-Za-z_]*?)(\d{1,9})\]: ?`)

// named matches the line that follows a traceback and names the exception: its class, usually followed by a message.
var named = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*(:|$)`)

// exception is an exception that a process printed. It might have ended the process.
type exception struct {
	failure
	prefix    string
	localRank *int32
	isOfTorch bool
	isChained bool // whether an earlier exception is its cause
}

// globalRank returns the global rank of a process from its local rank and the rank of the first process of the node. It
// returns nil if either is unknown.
func (e exception) globalRank(first *int32) *int32 {
	if e.localRank == nil || first == nil {
		return nil
	}
	return number(int(*first) + int(*e.localRank))
}

const (
	// maxExceptions is the maximum number of exceptions that are read.
	maxExceptions = 256
	// maxLines is the maximum number of lines that are kept of an exception. The last lines are kept.
	maxLines = 60
)

const (
	traceback = "Traceback (most recent call last):"
	frame     = "  File \""
)

// chained are the beginnings of the lines that Python prints between two exceptions if one was raised because of the
// other, or while the other was handled. The exception that Python prints first counts as the cause.
var chained = []string{
	"During handling of the above exception, another exception occurred:",
	"The above exception was the direct cause of the following exception:",
}

// embedded matches lines in the message of an exception. Each of these lines introduces the traceback of the cause,
// which is an exception of another process. Such messages are from torch.multiprocessing.spawn, and from a DataLoader
// with workers.
var embedded = regexp.MustCompile(`^(-- Process \d+ terminated with the following error:|Original Traceback \(most recent call last\):)$`)

// readExceptions returns the exceptions that processes printed, in the order of the output. Lines of several processes
// can be mixed if each line has a prefix. A traceback whose beginning is cut off counts as an exception. So does a
// message about a lost peer that a library prints without raising an exception.
func readExceptions(lines []string) []*exception {
	var all []*exception
	open := map[string]*exception{}   // unfinished tracebacks by prefix
	closed := map[string]*exception{} // the last finished traceback of each prefix
	for _, line := range lines {
		p := prefix.FindString(line)
		text := line[len(p):]
		e := open[p]
		switch {
		case e == nil && (strings.HasPrefix(text, traceback) || strings.HasPrefix(text, frame)):
			e = newException(p)
			open[p] = e
			e.lines = append(e.lines, line)
		case e == nil && isChained(text):
			// Skip the next traceback, because it is a consequence of the last exception.
			if last := closed[p]; last != nil {
				open[p] = &exception{isChained: true}
			}
		case e == nil && closed[p] != nil && embedded.MatchString(text):
			// The message of the exception contains the traceback of its cause.
			e = closed[p]
			e.add(line)
			open[p] = e
		case e == nil && len(all) < maxExceptions && isLostPeer(text) && closed[p] == nil:
			e = newException(p)
			e.kind, e.lines = lostPeers, []string{line}
			closed[p] = e
			all = append(all, e)
		case e == nil:
			if last := closed[p]; last != nil && last.kind == raised && last.isOfTorch && isLostPeer(text) {
				last.kind = lostPeers // this is another line of the exception's message
				last.lines = append(last.lines, line)
			}
		case text == "" || strings.HasPrefix(text, " ") || strings.HasPrefix(text, traceback):
			e.add(line)
		case !named.MatchString(text): // a line of another process
		default: // the line that names the exception
			delete(open, p)
			goesOn := closed[p] == e
			if e.isChained || len(all) == maxExceptions && !goesOn || strings.HasPrefix(text, agentError) {
				continue
			}
			e.lines = append(e.lines, line)
			e.kind = raised
			e.isOfTorch = strings.HasPrefix(text, "torch.distributed.") || strings.HasPrefix(text, "RuntimeError: NCCL")
			if isLostPeer(text) {
				e.kind = lostPeers
			}
			if !goesOn {
				closed[p] = e
				all = append(all, e)
			}
		}
	}
	return slices.DeleteFunc(all, func(e *exception) bool {
		return (e.rank != nil || e.localRank != nil) && closed[e.prefix] != e // the process continued after the exception
	})
}

// add adds a line to the exception. It keeps only the last maxLines lines.
func (e *exception) add(line string) {
	e.lines = append(e.lines, line)
	e.lines = e.lines[max(0, len(e.lines)-maxLines):]
}

func newException(prefixed string) *exception {
	e := &exception{prefix: prefixed}
	if m := prefix.FindStringSubmatch(prefixed); m != nil {
		n, _ := strconv.Atoi(m[2])
		if m[1] == "rank" {
			e.rank = number(n)
		} else {
			e.localRank = number(n)
		}
	}
	return e
}

func isChained(text string) bool {
	return slices.ContainsFunc(chained, func(c string) bool { return strings.HasPrefix(text, c) })
}
