// Package decide makes the decision about a job: which attempt begins, which failures count, which pods and which
// admission the job needs, how it ends, why it waits, and when to reconcile it again. Package status renders the status
// that results.
package decide

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Decide returns the decision about a job at the given time, and the view of the job after the decision. Its steps
// are, in this order:
//
//   - observe determines the current replicas of the job and their states (elastic.go, package view);
//   - choose selects the action, such as Pause, AwaitRootCause, End or Run (choose.go);
//   - act takes the steps of that action (run.go, restart.go, rootcause.go, pause.go, hold.go, ending.go, finish.go,
//     cleanup.go, elsewhere.go, quota.go, and for pods that another controller admits, admission.go and withdraw.go);
//   - release removes the finalizer from pods of leaders when their end is recorded (release.go);
//   - watchStall and recordReadings follow the training (stall.go, readings.go);
//   - needsLiveRead reports whether the decision requires a live read (liveread.go).
func Decide(job view.Job, seen view.Observation, now time.Time) (Facts, view.View) {
	v, resized := observe(job, seen, now)
	s := &steps{View: v, Facts: Facts{
		Counts:       view.CountsOf(v.Job.Status),
		StartTime:    v.Job.Status.StartTime,
		Running:      view.IsRunning(v.Job.Status),
		Failures:     slices.Clone(v.Job.Status.Failures),
		AvoidedNodes: slices.Clone(v.Job.Status.AvoidedNodes),
	}}
	if v.Job.Status.Decided() {
		s.End = view.EndOf(v.Job.Status)
	}
	s.act(s.choose())
	s.release()
	if s.Job.IsFollowed() {
		s.watchStall(v)
		s.recordReadings(v)
	}
	s.NeedsLiveRead = s.needsLiveRead(v, resized)
	if s.RecordsFailure {
		s.Unclear = unclear(v)
		if s.Unclear == nil {
			s.Unclear = s.lacking
		}
	}
	return s.Facts, s.View
}

// steps has a method for each step of a decision. The methods fill in the facts.
type steps struct {
	// View is the view of the job. Steps that change the replicas or their attempts replace it.
	view.View
	Facts
	// lacking are main containers of recorded failures. The known output of such a container lacks the lines that the
	// program printed.
	lacking []view.Container
}

// act takes the steps of an action.
func (s *steps) act(c choice) {
	s.Action = c.action
	if s.Action != Expire {
		s.deleteLostPods()
	}
	switch s.Action {
	case Leave, Queue:
	case Expire:
		s.DeleteJob = true
	case Dispatch:
		s.dispatch()
	case CleanUp:
		s.cleanUp()
	case Hold:
		s.hold()
	case Pause:
		s.pause()
	case End:
		s.end()
	case DecideEnd:
		s.begin()
		s.decideEnd(*c.ending)
		s.end()
	case AwaitRootCause:
		s.begin()
		s.awaitRootCause(c.rootCauseDue)
	case Stop:
		s.restart()
		s.stop()
		s.pause()
	case Withdraw, GiveBack, Run:
		s.begin()
		s.restart()
		s.evictFor(c)
		s.run()
	}
}

// isDecided reports whether the end of the job is decided, now or before.
func (s *steps) isDecided() bool { return s.End != nil || s.Job.Status.Decided() }

// deleteLostPods deletes the pods of lost nodes by force after NodeLostDelay. So the job recovers, or is cleaned up,
// without an administrator.
func (s *steps) deleteLostPods() {
	for _, pod := range s.Seen.Pods {
		s.requeueUrgentlyAt(policy.NextNodeCheck(pod, s.Job.NodeLostDelay, s.Now))
		due := policy.ForceDeletion(pod, s.Job.NodeLostDelay)
		if policy.IsDue(due, s.Now) {
			s.ForceDeletes = append(s.ForceDeletes, pod)
		} else {
			s.requeueUrgentlyAt(due)
		}
	}
	sortByName(s.ForceDeletes)
}

// requeueAt sets RequeueAt, unless RequeueAt is already earlier. The zero time changes nothing.
func (f *Facts) requeueAt(t time.Time) { f.RequeueAt = policy.Earlier(f.RequeueAt, t) }

// requeueUrgentlyAt sets RequeueAt like requeueAt, and marks the job as urgent because nodes might be idle until the
// given time. The zero time changes nothing.
func (f *Facts) requeueUrgentlyAt(t time.Time) {
	f.requeueAt(t)
	f.Urgent = f.Urgent || !t.IsZero()
}

// happens adds h to Happenings.
func (f *Facts) happens(h Happening) { f.Happenings = append(f.Happenings, h) }

// sortByName sorts pods, so that equal input gives equal decisions.
func sortByName(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}
