package supervisor

import "slices"

// rounds follows the rounds of a training. In each round, torchrun starts all training processes of the replica.
// Between two rounds there are none: torchrun waits for other replicas, also at the end of the training.
type rounds struct {
	// processes are the IDs of the processes of the last round that ran when they were last looked at.
	processes []int
}

// startAgain takes the IDs of the processes that run now. It reports whether another round has begun since the last
// call.
func (r *rounds) startAgain(now []int) bool {
	if len(now) == 0 {
		return false
	}
	isFirst := len(r.processes) == 0
	goesOn := slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(r.processes, pid) })
	r.processes = now
	return !isFirst && !goesOn
}
