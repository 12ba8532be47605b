package launcher

import (
	"slices"
	"strings"
)

// signs are what libraries print of a lost peer, in lower case. Each begins with the name of the library, or is so long
// that no other program says it: a data set that closes its connection is no peer.
var signs = [][]string{
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

// bareSigns are whole lines that the store of torch raises, before torch 2.1.
var bareSigns = []string{
	"RuntimeError: Connection reset by peer", "RuntimeError: Broken pipe", "RuntimeError: Socket Timeout",
}

// isLostPeer reports whether the line is about a lost connection to a peer, or about a peer that does not answer.
func isLostPeer(line string) bool {
	if slices.Contains(bareSigns, line) {
		return true
	}
	lower := strings.ToLower(line)
	for _, sign := range signs {
		rest, all := lower, true
		for _, part := range sign {
			var found bool
			if _, rest, found = strings.Cut(rest, part); !found {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}
