package launcher

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// prefix is what torch (since 2.2) and torchrun's option --tee put before each line of a process: [rank3]: or
// [default1]:.
var prefix = regexp.MustCompile(`^\[([A-Za-z_]*?)(\d{1,9})\]: ?`)

// named is the line that names an exception, after its traceback: the class, and mostly a text.
var named = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*(:|$)`)

// exception is an exception that ended a process, or that it printed.
type exception struct {
	failure
	prefix    string
	localRank *int32
	isOfTorch bool
	isChained bool // to an earlier one, which tells why
}

// globalRank returns the rank of a process that is known by its number on the node. The first process of the node has
// the given rank. Nil if either is not known.
func (e exception) globalRank(first *int32) *int32 {
	if e.localRank == nil || first == nil {
		return nil
	}
	return number(int(*first) + int(*e.localRank))
}

// maxExceptions is how many exceptions are read, and maxLines how many lines are kept of each, from its end.
const (
	maxExceptions = 256
	maxLines      = 60
)

const (
	traceback = "Traceback (most recent call last):"
	frame     = "  File \""
)

// chained are the lines between an exception and the one that was raised while it was handled: the first tells why.
var chained = []string{
	"During handling of the above exception, another exception occurred:",
	"The above exception was the direct cause of the following exception:",
}

// readExceptions returns the exceptions that processes printed, in their order. Lines of several processes may be mixed
// if each has a prefix. A traceback whose beginning is cut off is one, too. What a library prints of a lost peer
// without raising is one.
func readExceptions(lines []string) []*exception {
	var all []*exception
	open := map[string]*exception{}   // tracebacks that are being printed, by prefix
	closed := map[string]*exception{} // the last of each process
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
			// What follows is not an exception of its own.
			if last := closed[p]; last != nil {
				open[p] = &exception{isChained: true}
			}
		case e == nil && len(all) < maxExceptions && isLostPeer(text) && closed[p] == nil:
			e = newException(p)
			e.kind, e.lines = lostPeers, []string{line}
			closed[p] = e
			all = append(all, e)
		case e == nil:
			if last := closed[p]; last != nil && last.kind == raised && last.isOfTorch && isLostPeer(text) {
				last.kind = lostPeers // in a further line of its message
				last.lines = append(last.lines, line)
			}
		case text == "" || strings.HasPrefix(text, " ") || strings.HasPrefix(text, traceback):
			e.lines = append(e.lines, line)
			e.lines = e.lines[max(0, len(e.lines)-maxLines):]
		case !named.MatchString(text): // a line of another process
		default: // the exception itself
			delete(open, p)
			if e.isChained || len(all) == maxExceptions || strings.HasPrefix(text, agentError) {
				continue
			}
			e.lines = append(e.lines, line)
			e.kind = raised
			e.isOfTorch = strings.HasPrefix(text, "torch.distributed.") || strings.HasPrefix(text, "RuntimeError: NCCL")
			if isLostPeer(text) {
				e.kind = lostPeers
			}
			closed[p] = e
			all = append(all, e)
		}
	}
	return slices.DeleteFunc(all, func(e *exception) bool {
		return (e.rank != nil || e.localRank != nil) && closed[e.prefix] != e // it went on after that one
	})
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
	for _, c := range chained {
		if strings.HasPrefix(text, c) {
			return true
		}
	}
	return false
}
