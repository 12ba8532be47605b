package supervisor

import "slices"

// rounds follows the rounds of a training. In each round, torchrun starts all training processes of the replica.
// Between two rounds, and at the end of the training, torchrun waits for other replicas, and there are no training
// processes.
type rounds struct {
	// processes are the IDs from the last call of startAgain. A call without IDs does not count.
	processes []int
}

// startAgain reports whether another round has begun since the last call. The parameter now has the IDs of the
// training processes that run now.
func (r *rounds) startAgain(now []int) bool {
	if len(now) == 0 {
		return false
	}
	isFirst := len(r.processes) == 0
	goesOn := slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(r.processes, pid) })
	r.processes = now
	return !isFirst && !goesOn
}
