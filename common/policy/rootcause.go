package policy

import (
	"cmp"
	"time"

	"tensorstack.dev/jobs/common/internal/compare"
	"tensorstack.dev/jobs/common/trainlog"
)

// clockSkew is the tolerated difference between the clocks of two nodes whose failures are compared, including
// rounding to seconds.
const clockSkew = time.Second

// RootCauseDue returns when all kubelets should have reported the failures that followed from a failure, and whether
// this time is in the future. The wait is necessary because the failure of a peer can be reported before its root
// cause.
//
// The window begins when the controller saw the failure, and not when the replica failed: the clock of the node might
// differ, and the API server might have been unavailable to the kubelets. If the time seen is in the future,
// RootCauseDue returns false, so that the controller does not wait. That can happen if another controller, whose
// clock was ahead, recorded the time.
func RootCauseDue(seen, now time.Time, window time.Duration) (time.Time, bool) {
	due := seen.Add(window)
	return due, now.Before(due) && !seen.After(now)
}

// lookInterval is the maximum delay until a launcher sees that a process has ended. Before torch 2.4, torchrun polls
// every 5 s.
const lookInterval = 5 * time.Second

// Precedes reports whether failure b in a collective might have followed from failure a. It compares, in this order:
//
//  1. A failure because of an unhealthy device precedes. It has no cause in the collective.
//  2. A failure that is not about lost peers precedes the failure of a process that only lost its peers.
//  3. The earlier failure precedes. Times are compared in whole seconds, as kubelets and launchers report them. An
//     unknown time is the earliest. An ignored failure counts as earlier by clockSkew, because peers of a member that
//     was removed fail as a consequence. A failure with an exit code or a signal that a lost peer does not explain
//     counts as earlier by lookInterval, if a launcher reports its time. The launcher might have seen it late.
//  4. An ignored failure precedes.
//  5. A process that was killed precedes.
//  6. A failure with an exit code or a signal that a lost peer does not explain precedes.
//  7. A failure whose exception is known precedes.
//  8. The failure that a launcher or the kubelet saw first precedes.
func Precedes(a, b Failure) bool {
	return cmp.Or(compare.FalseFirst(!a.isOfDevice(), !b.isOfDevice()),
		compare.FalseFirst(a.FollowsOn(), b.FollowsOn()), a.earliest().Compare(b.earliest()),
		compare.FalseFirst(!a.Ignored, !b.Ignored), compare.FalseFirst(!a.killed(), !b.killed()),
		compare.FalseFirst(!a.isOwnFault(), !b.isOwnFault()), compare.FalseFirst(a.IsUnclear(), b.IsUnclear()),
		a.seen().Compare(b.seen())) < 0
}

// FollowsOn reports whether the output shows that the failure followed from another one. The result is false if the
// failure is ignored, or if its exit code rules out that it followed from another one.
func (f Failure) FollowsOn() bool { return f.Report.LostPeers && !f.Ignored && !f.isOwnFault() }

// isOwnFault reports whether the exit code rules out that the failure followed from another one. A signal also counts
// as an exit code.
func (f Failure) isOwnFault() bool {
	return trainlog.IsOwnFault(f.Report.ExitCode) || trainlog.IsOwnFault(f.ExitCode)
}

// IsUnclear reports whether the failure might have followed from another one. The known output does not show this,
// but the missing beginning of the output might.
func (f Failure) IsUnclear() bool { return f.Report.IsUnclear && !f.Ignored && !f.isOwnFault() }

// IsFirst reports whether the supervisors of all replicas saw the failure before all others, and its output does not
// suggest that it followed from another one. The supervisors do not report this if they have noticed that a replica was
// deleted or lost before.
func (f Failure) IsFirst() bool { return f.Report.IsFirst && !f.FollowsOn() && !f.IsUnclear() }

// earliest returns the earliest second in which the failure might have happened.
func (f Failure) earliest() time.Time {
	seen := f.seen().Truncate(time.Second)
	switch {
	case f.Ignored:
		return seen.Add(-clockSkew)
	case !f.Report.Time.IsZero() && trainlog.IsOwnFault(f.Report.ExitCode):
		return seen.Add(-lookInterval)
	default:
		return seen
	}
}

// timeZones is the unit of time zones: every offset from UTC is a multiple of it.
const timeZones = 15 * time.Minute

// seen returns when the launcher saw the failure. If the launcher reports no time, seen returns when the kubelet saw
// the container end. That can be later, because the launcher ends the other processes first. The time that a launcher
// reports has no time zone, but all offsets from UTC are multiples of 15 minutes. So seen takes the reported time
// modulo 15 minutes, and returns the matching time within the 15 minutes before the end of the container.
func (f Failure) seen() time.Time {
	if f.Report.Time.IsZero() || f.Time.IsZero() {
		return f.Time
	}
	end := f.Time.Add(time.Second) // f.Time is rounded down
	before := end.Sub(f.Report.Time) % timeZones
	if before < 0 {
		before += timeZones
	}
	return end.Add(-before)
}

// killed reports whether SIGKILL ended the container or the process that failed first. Out-of-memory kills use SIGKILL.
func (f Failure) killed() bool {
	return f.ExitCode != nil && *f.ExitCode == exitKilled ||
		f.Report.ExitCode != nil && (*f.Report.ExitCode == -signalKill || *f.Report.ExitCode == exitKilled)
}
