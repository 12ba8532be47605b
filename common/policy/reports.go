package policy

import "time"

// clockSkew is how much the clocks of two nodes may differ, rounding to seconds included, and their reports still be compared.
const clockSkew = time.Second

// ReportsDue returns when all reports of what a failure did to the peers of a replica can be expected, and whether that is yet
// to come. The kubelets may well report a peer, which died of the failure, before the replica that failed. The window opens when the
// controller saw it: the clock of the node may be another, and the API server may not have taken reports for a while. A controller
// whose clock was ahead may have seen it in the future, for which another does not wait.
func ReportsDue(seen, now time.Time, window time.Duration) (time.Time, bool) {
	due := seen.Add(window)
	return due, now.Before(due) && !seen.After(now)
}

// Precedes says that of two failures in a collective the second may have followed from the first. The peers of a member that
// was taken away, which is ignored, die of that. Of failures in the same second, which is all that kubelets tell of the time,
// the one that was killed was not one that died of its peers. A time that is not known is the earliest.
func Precedes(a, b Failure) bool {
	switch {
	case a.Ignored && !b.Ignored:
		return !a.Time.After(b.Time.Add(clockSkew))
	case b.Ignored && !a.Ignored:
		return b.Time.After(a.Time.Add(clockSkew))
	case !a.Time.Equal(b.Time):
		return a.Time.Before(b.Time)
	default:
		return a.killed() && !b.killed()
	}
}

// killed says that somebody ended the container by SIGKILL, an out-of-memory kill among them.
func (f Failure) killed() bool { return f.ExitCode != nil && *f.ExitCode == exitKilled }
