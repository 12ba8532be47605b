package policy

import "time"

// clockSkew is how much the clock of a node may be ahead of ours and its reports still be taken at their word.
const clockSkew = time.Second

// ReportsDue returns when all reports of what a failure did to the peers of a replica can be expected, and whether that is yet
// to come. The kubelets may well report a peer, which died of the failure, before the replica that failed. A failure in the
// future says that the clocks differ, and nothing about how long to wait.
func ReportsDue(failed, now time.Time, window time.Duration) (time.Time, bool) {
	due := failed.Add(window)
	return due, now.Before(due) && !failed.After(now.Add(clockSkew))
}
