package supervisor

import (
	"net"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/ranks"
)

// Variables that torchrun sets for each rank. The address of rank 0 is another one in each round, unless
// TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 0.
const (
	envMasterAddr     = "MASTER_ADDR"
	envMasterPort     = "MASTER_PORT"
	envGroupWorldSize = "GROUP_WORLD_SIZE" // number of replicas in the round
)

// searchInterval is the time between two searches for ranks, if the budget limits the restarts. It is short, so that
// the supervisor sees processes that fail when they have just started.
const searchInterval = 20 * time.Millisecond

// observe watches the processes of torchrun. It reports each start except the first as progress. With a budget, it
// tells the budget about each start, and sends the first failure after each start. It does not return.
func (s *supervision) observe(failures chan<- failure, verdicts chan<- decision) {
	training := ranks.Watcher{Among: ranks.ChildOf(s.torchrun.Pid)}
	if s.budget != nil {
		training.Variables = []string{envMasterAddr, envMasterPort, envGroupWorldSize}
		if !s.onlyOrder {
			training.SearchInterval = searchInterval
		}
	}
	seen, hasFailed := 0, false // number of starts, and whether a process has failed since the last one
	for e := range training.Events(nil) {
		isStart := e.Round >= seen
		if isStart {
			seen, hasFailed = e.Round+1, false
		}
		if isStart && seen > 1 {
			if err := progress.ReportStart(); err != nil {
				s.log.Print(err)
			}
		}
		if s.budget == nil {
			continue
		}
		if isStart || !e.Ended && e.Rank == 0 {
			if v := s.budget.begin(startOf(e)); v != nil {
				verdicts <- decision{*v, failure{}}
			}
		}
		// A code is unknown if torchrun was faster, and then the end might be a success. It uses up no restart, but without
		// it the order of failures is unknown.
		code := ptr.Deref(e.Code, 0)
		if e.Ended && !hasFailed && (code != 0 || e.Code == nil && s.onlyOrder) {
			hasFailed = true
			failures <- failure{Rank: e.Rank, Code: code}
		}
	}
}

// startOf returns the start of a rank as the budget needs it.
func startOf(e ranks.Event) start {
	size, _ := strconv.Atoi(e.Variables[envGroupWorldSize])
	return start{
		Number: e.Round + 1, Round: net.JoinHostPort(e.Variables[envMasterAddr], e.Variables[envMasterPort]), Size: size,
		hasFirst: e.Rank == 0,
	}
}
