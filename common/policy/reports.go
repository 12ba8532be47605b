package policy

import (
	"cmp"
	"time"

	"tensorstack.dev/jobs/common/internal/compare"
	"tensorstack.dev/jobs/common/launcher"
)

// clockSkew is how much the clocks of two nodes may differ, rounding to seconds included, and their reports still be
// compared.
const clockSkew = time.Second

// ReportsDue returns when all reports of what a failure did to the peers of a replica can be expected, and whether that
// is yet to come. The kubelets may well report a peer, which died of the failure, before the replica that failed. The
// window opens when the controller saw it: the clock of the node may be another, and the API server may not have taken
// reports for a while. A controller whose clock was ahead may have seen it in the future, for which another does not
// wait.
func ReportsDue(seen, now time.Time, window time.Duration) (time.Time, bool) {
	due := seen.Add(window)
	return due, now.Before(due) && !seen.After(now)
}

// lookInterval is how late a launcher may see that a process has ended: torchrun looks every 5 s before torch 2.4.
const lookInterval = 5 * time.Second

// Precedes reports whether, of two failures in a collective, the second may have followed from the first. A process
// that only lost its peers followed from any that did not. Otherwise the earlier precedes, by the seconds that kubelets
// and launchers report: the peers of a member that was taken away, which is ignored, die of that; an exit code or a
// signal that a lost peer does not explain is older than the launcher saw it. In the same second the one that was
// killed precedes, then one with such an exit code, then one whose exception is known, then the one that its launcher
// saw first. A time that is not known is the earliest.
func Precedes(a, b Failure) bool {
	return cmp.Or(
		compare.FalseFirst(a.FollowsOn(), b.FollowsOn()),
		a.earliest().Compare(b.earliest()),
		compare.FalseFirst(!a.Ignored, !b.Ignored),
		compare.FalseFirst(!a.killed(), !b.killed()),
		compare.FalseFirst(!a.tells(), !b.tells()),
		compare.FalseFirst(a.IsUnclear(), b.IsUnclear()),
		a.seen().Compare(b.seen()),
	) < 0
}

// FollowsOn reports whether the failure followed from another one, as its output tells.
func (f Failure) FollowsOn() bool { return f.Report.LostPeers && !f.Ignored && !f.tells() }

// tells reports whether an exit code or a signal tells that the failure did not follow from another one.
func (f Failure) tells() bool { return launcher.Tells(f.Report.ExitCode) || launcher.Tells(f.ExitCode) }

// IsUnclear reports whether more of the output may tell whether the failure followed from another one.
func (f Failure) IsUnclear() bool { return f.Report.IsUnclear && !f.Ignored && !f.tells() }

// earliest returns the second in which the failure may have happened.
func (f Failure) earliest() time.Time {
	seen := f.seen().Truncate(time.Second)
	switch {
	case f.Ignored:
		return seen.Add(-clockSkew)
	case !f.Report.Time.IsZero() && launcher.Tells(f.Report.ExitCode):
		return seen.Add(-lookInterval)
	default:
		return seen
	}
}

// timeZones is what the offsets of all time zones are multiples of.
const timeZones = 15 * time.Minute

// seen returns when the launcher saw the failure, else when the kubelet saw the container end. A launcher may run on
// for a while, to end the other processes. It does not say its time zone, so only the time within the quarter of an
// hour before that end counts.
func (f Failure) seen() time.Time {
	if f.Report.Time.IsZero() || f.Time.IsZero() {
		return f.Time
	}
	end := f.Time.Add(time.Second) // it is rounded down
	before := end.Sub(f.Report.Time) % timeZones
	if before < 0 {
		before += timeZones
	}
	return end.Add(-before)
}

// killed reports whether SIGKILL ended the container or the process that failed first, an out-of-memory kill among
// them.
func (f Failure) killed() bool {
	return f.ExitCode != nil && *f.ExitCode == exitKilled ||
		f.Report.ExitCode != nil && (*f.Report.ExitCode == -signalKill || *f.Report.ExitCode == exitKilled)
}
