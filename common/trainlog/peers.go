package trainlog

import (
	"slices"
	"strings"
)

// signs identify messages of libraries about a lost peer. Each sign consists of one or two lower-case parts of a
// message. A line matches if it contains all parts of a sign in order. Each sign contains the name of a library or is
// too specific to match other messages, such as one about a closed connection to a data set.
var signs = [][2]string{
	{"gloo/", "closed by peer"},
	{"gloo/", "reset by peer"},
	{"gloo/", "broken pipe"},
	{"gloo/", "timed out"},
	{"gloo/", "connect"},
	{"remote process exited or there was a network error"},
	{"ncclremoteerror"},
	{"nccl", "closed by remote peer"},
	{"socketprogress", "closed by remote peer"},
	{"nccl communicator was aborted"},
	{"watchdog caught collective operation timeout"},
	{"was likely closed. did the remote server shutdown or crash"},
	{"torch.distributed.distnetworkerror"},
	{"torch.distributed.diststoreerror"},
	{"torch.distributed.elastic.rendezvous.api.rendezvous"},
	{"torch.distributed.elastic.multiprocessing.api.signalexception"},
}

// bareSigns are complete lines about the exceptions that the store of torch raises in versions before 2.1.
var bareSigns = []string{
	"RuntimeError: Connection reset by peer", "RuntimeError: Broken pipe", "RuntimeError: Socket Timeout",
}

// isLostPeer reports whether the line is about a lost connection to a peer, or about a peer that does not respond.
func isLostPeer(line string) bool {
	if slices.Contains(bareSigns, line) {
		return true
	}
	lower := strings.ToLower(line)
	return slices.ContainsFunc(signs, func(sign [2]string) bool {
		_, rest, found := strings.Cut(lower, sign[0])
		return found && strings.Contains(rest, sign[1])
	})
}
