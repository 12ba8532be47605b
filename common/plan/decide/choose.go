package decide

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// Action is what the controller does about a job. It determines which steps fill in the facts.
type Action int

const (
	// Leave: the user has deleted the job. The objects that it owns are garbage collected.
	Leave Action = iota
	// Expire: the time to live of the finished job is over, so the job is deleted.
	Expire
	// Dispatch: another cluster runs the job. This controller only requests its admission, and keeps the status that
	// Kueue has copied. The steps can change the action to Queue, Pause, Hold or End: for example to Queue if the job is
	// not admitted yet.
	Dispatch
	// Queue: the job waits for its admission to another cluster. choose never returns Queue. It returns Dispatch, which
	// the steps change to Queue.
	Queue
	// CleanUp: the job has finished. Its pods are deleted according to its clean-up policy.
	CleanUp
	// Hold: the job has no replicas to run. Existing pods stay as they are.
	Hold
	// Pause: the user has requested a pause and no attempt runs. Remaining pods are deleted.
	Pause
	// End: the end of the job is decided. The job finishes when none of its pods can still run, or immediately if its
	// clean-up policy is None.
	End
	// DecideEnd: the job ends now. The status records how.
	DecideEnd
	// AwaitRootCause: a failure restarts all replicas. Before that, the controller gives the kubelets of the peers time to
	// report failures, because one of these can be the root cause.
	AwaitRootCause
	// Stop: the user has requested a pause and an attempt runs. The end of the attempt is recorded before the first pod
	// is deleted.
	Stop
	// Withdraw: the admission of the job is withdrawn and replicas run. The end of the attempt is recorded before the
	// first pod is deleted.
	Withdraw
	// GiveBack: a ResourceQuota has no room for all replicas that the job needs. The existing pods are deleted, because
	// they would only wait. Before the first pod is deleted, the end of the attempt is recorded.
	GiveBack
	// Run: replicas are restarted and created as needed.
	Run
)

// choice is an action and the arguments of its steps.
type choice struct {
	action Action
	// ending is how the job ends, if the action is DecideEnd.
	ending *ending
	// rootCauseDue is when the controller stops waiting for failures of the peers, if the action is AwaitRootCause.
	rootCauseDue time.Time
	// why is the reason of the withdrawal, if the action is Withdraw.
	why string
}

// choose returns the action for the job. The first case that matches applies.
func (s *steps) choose() choice {
	switch {
	case s.Job.Deleting:
		return choice{action: Leave}
	case s.isExpired():
		return choice{action: Expire}
	case s.Job.Spec.RunsElsewhere():
		return choice{action: Dispatch}
	case s.Job.Status.Finished():
		return choice{action: CleanUp}
	case s.Job.Status.Decided():
		return choice{action: End}
	case isPausedBeforeStart(s.View):
		return choice{action: Pause}
	}
	due, waits := s.rootCauseDue()
	if end := s.ending(waits); end != nil {
		return choice{action: DecideEnd, ending: end}
	}
	if len(s.Peers.Members) == 0 && !s.isPausing() {
		return choice{action: Hold}
	}
	if waits {
		return choice{action: AwaitRootCause, rootCauseDue: due}
	}
	if s.isPausing() {
		return choice{action: Stop}
	}
	if why := s.WhyStop(); why != "" {
		return choice{action: Withdraw, why: why}
	}
	if policy.IsDue(s.giveBackDue(), s.Now) {
		return choice{action: GiveBack}
	}
	return choice{action: Run}
}

// isExpired reports whether to delete a finished job because its time to live is over. The job stays while it has
// pods on lost nodes, because nobody would delete these pods by force after the job is gone. It also stays until held
// pods are released.
func (s *steps) isExpired() bool {
	mustStay := func(pod *corev1.Pod) bool {
		return !policy.ForceDeletion(pod, s.Job.NodeLostDelay).IsZero() || view.IsHeld(pod)
	}
	return s.Job.Status.Finished() && policy.IsDue(s.expiry(s.Job.Status.CompletionTime), s.Now) &&
		!slices.ContainsFunc(slices.Collect(maps.Values(s.Seen.Pods)), mustStay)
}

// expiry returns when a job that finishes at the given time expires. The result is zero if the job never expires. A
// copy of a job of another cluster never expires: MultiKueue deletes the copy after it has copied the status back.
func (s *steps) expiry(completion *metav1.Time) time.Time {
	if s.Job.IsCopy {
		return time.Time{}
	}
	return policy.After(completion, s.Job.Spec.RunPolicy.TTLSecondsAfterFinished)
}
