package tensorboard

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// observation is what the cluster holds of a TensorBoard, and what it says of itself.
type observation struct {
	// Pod that runs it; nil if there is none.
	Pod *corev1.Pod
	// Hash of the spec that a pod of today would be made from.
	Hash string
	// Claims says how the claims of its sources are.
	Claims claims
	// Group is that of a TensorBoard that is scheduled from a queue.
	Group groupView
	// Answer of the sidecar, if it was asked.
	Answer *answer
}

// answer is what the sidecar said, or why it did not.
type answer struct {
	Status sidecar.Status
	Err    error
}

// decision is what to do about a TensorBoard.
type decision struct {
	Status v1beta1.TensorBoardStatus
	// Create a pod, or Delete the one that was seen, by force if its node is lost.
	Create, Delete, Force bool
	// CreateGroup makes its PodGroup, DeleteGroup gives back what that holds.
	CreateGroup, DeleteGroup bool
	// Suspend the TensorBoard, since nobody has looked at it for long.
	Suspend bool
	// WakeIn is when to look again without being woken; 0 is never.
	WakeIn time.Duration
}

const (
	// claimDelay is the time between two looks at a claim that a TensorBoard waits for: nobody tells of claims.
	claimDelay = 5 * time.Second
	// replacementDelay is the least age of a pod that is replaced because it ended, so that one which is evicted again and
	// again costs the cluster little.
	replacementDelay = time.Minute
	// nodeLostDelay is how long a pod may take to end past its grace period before it is deleted by force: its node is
	// lost. It only reads, so that one which still runs does no harm.
	nodeLostDelay = time.Minute
)

// plan decides what to do about a TensorBoard. It is a pure function.
func plan(tb *v1beta1.TensorBoard, seen observation, options Options, now time.Time) decision {
	d := decision{Status: *tb.Status.DeepCopy()}
	d.Status.ObservedGeneration = tb.Generation
	d.Status.Pod = podStatus(seen.Pod)
	phase, ready := d.pod(tb, seen, now)
	d.Status.Phase = phase
	d.Status.Conditions = []v1beta1.TensorBoardCondition{
		ready, sourcesAvailable(seen.Answer), d.idle(tb, seen, options),
	}
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		*c = follow(condition(tb.Status.Conditions, c.Type), *c, seen.Answer != nil, now)
	}
	return d
}

// pod decides what becomes of the pod, and says what that means for the TensorBoard.
func (d *decision) pod(
	tb *v1beta1.TensorBoard, seen observation, now time.Time,
) (v1beta1.TensorBoardPhase, v1beta1.TensorBoardCondition) {
	pod := seen.Pod
	switch {
	case pod != nil && !pod.DeletionTimestamp.IsZero():
		// It is deleted with a time limit: the grace period is in the timestamp.
		d.WakeIn = max(0, pod.DeletionTimestamp.Add(nodeLostDelay).Sub(now))
		d.Delete, d.Force = d.WakeIn == 0, d.WakeIn == 0
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping, pod.Name+" is ending")
	case tb.Spec.Suspend && pod != nil:
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping, pod.Name+" is ending, since spec.suspend is true")
	case tb.Spec.Suspend:
		d.DeleteGroup = seen.Group.Object != nil && metav1.IsControlledBy(seen.Group.Object, tb)
		return v1beta1.TensorBoardSuspended, suspended(tb)
	case pod == nil && seen.Claims.Reason != "":
		d.WakeIn = claimDelay
		phase := v1beta1.TensorBoardPending
		if seen.Claims.Reason == v1beta1.ReasonClaimExclusive {
			phase = v1beta1.TensorBoardFailed
		}
		return phase, notReady(seen.Claims.Reason, seen.Claims.Message)
	case pod == nil:
		if t9kScheduler(&tb.Spec) != nil {
			if phase, waits := d.joinQueue(tb, seen.Group); phase != "" {
				return phase, waits
			}
		}
		d.Create = true
		return v1beta1.TensorBoardPending, notReady(batchv1beta1.ReasonCreating, "the pod is being created")
	case pod.Annotations[annotationSpecHash] != seen.Hash:
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping, pod.Name+" is ending, since the spec has changed")
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		d.WakeIn = max(0, pod.CreationTimestamp.Add(replacementDelay).Sub(now))
		d.Delete = d.WakeIn == 0
		return v1beta1.TensorBoardPending, notReady(batchv1beta1.ReasonRestarting,
			fmt.Sprintf("%s is replaced, since it ended: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message))
	case isMisplaced(pod, seen.Claims.WantedOn):
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonGivingWay, seen.Claims.Message)
	case isReady(pod):
		return v1beta1.TensorBoardRunning, v1beta1.TensorBoardCondition{
			Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonServing,
			Message: "TensorBoard answers",
		}
	}
	d.WakeIn = claimDelay // its claims may be in use elsewhere by now
	reason, message := whyNotReady(pod)
	if queued, why := whyQueued(seen.Group); queued != "" && pod.Spec.NodeName == "" {
		reason, message = queued, why
	}
	phase := v1beta1.TensorBoardPending
	switch reason {
	case v1beta1.ReasonCrashing, batchv1beta1.ReasonImagePull, batchv1beta1.ReasonContainerConfig:
		phase = v1beta1.TensorBoardFailed
	}
	return phase, notReady(reason, message)
}

// isMisplaced says that a pod is not where its claims are wanted; or that it waits for a node where they are no longer.
func isMisplaced(pod *corev1.Pod, wantedOn string) bool {
	if pod.Spec.NodeName == "" {
		return nodeOf(pod) != wantedOn
	}
	return wantedOn != "" && pod.Spec.NodeName != wantedOn
}

// idle decides whether the TensorBoard is idle, for so long that it is to be suspended.
func (d *decision) idle(tb *v1beta1.TensorBoard, seen observation, options Options) v1beta1.TensorBoardCondition {
	c := v1beta1.TensorBoardCondition{Type: v1beta1.ConditionIdle, Status: metav1.ConditionUnknown}
	before := condition(tb.Status.Conditions, v1beta1.ConditionIdle)
	switch {
	case tb.Spec.Suspend && before != nil && before.Reason == v1beta1.ReasonCulled:
		return *before
	case seen.Answer == nil:
		c.Reason, c.Message = v1beta1.ReasonNotRunning, "there is no TensorBoard to ask"
		return c
	case seen.Answer.Err != nil:
		c.Reason, c.Message = v1beta1.ReasonProbeFailed, "TensorBoard does not say when its last request was: "+
			seen.Answer.Err.Error()
		d.wakeIn(options.ProbeInterval)
		return c
	}
	d.wakeIn(options.ProbeInterval)
	idleFor := time.Duration(seen.Answer.Status.IdleSeconds) * time.Second
	if idleFor < options.IdleAfter {
		c.Status, c.Reason = metav1.ConditionFalse, v1beta1.ReasonRecentRequest
		c.Message = fmt.Sprintf("TensorBoard had a request less than %s ago", options.IdleAfter)
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, v1beta1.ReasonNoRequest
	c.Message = fmt.Sprintf("TensorBoard had no request for %s", options.IdleAfter)
	if options.SuspendAfterIdle == 0 {
		return c
	}
	c.Message += fmt.Sprintf("; without one it is suspended after %s more", options.SuspendAfterIdle)
	if idleFor >= options.IdleAfter+options.SuspendAfterIdle {
		d.Suspend = true
		c.Reason = v1beta1.ReasonCulled
		c.Message = fmt.Sprintf(
			"TensorBoard had no request for %s and was suspended: set spec.suspend to false to bring it back",
			idleFor,
		)
	}
	return c
}

func (d *decision) wakeIn(delay time.Duration) {
	if d.WakeIn == 0 || delay < d.WakeIn {
		d.WakeIn = delay
	}
}

// suspended says why there is no pod: the user wants none, or nobody has looked at it for long.
func suspended(tb *v1beta1.TensorBoard) v1beta1.TensorBoardCondition {
	if idle := condition(tb.Status.Conditions, v1beta1.ConditionIdle); idle != nil && idle.Reason == v1beta1.ReasonCulled {
		return notReady(v1beta1.ReasonCulled, idle.Message)
	}
	return notReady(v1beta1.ReasonSuspended, "spec.suspend is true")
}

// sourcesAvailable says whether the sidecar can read what it is to fetch.
func sourcesAvailable(a *answer) v1beta1.TensorBoardCondition {
	c := v1beta1.TensorBoardCondition{Type: v1beta1.ConditionSourcesAvailable, Status: metav1.ConditionUnknown}
	switch {
	case a == nil:
		c.Reason, c.Message = v1beta1.ReasonNotRunning, "there is no TensorBoard to ask"
	case a.Err != nil:
		c.Reason, c.Message = v1beta1.ReasonProbeFailed, "TensorBoard does not say how its sources are: "+a.Err.Error()
	case len(a.Status.Sources) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1beta1.ReasonAllAvailable, "no source reports an error"
	default:
		c.Status, c.Reason = metav1.ConditionFalse, v1beta1.ReasonFetchFailed
		first := a.Status.Sources[0]
		c.Message = report.Truncated(fmt.Sprintf("%s: %s", first.Source, first.Error), report.MaxNote)
		if more := len(a.Status.Sources) - 1; more > 0 {
			c.Message += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return c
}

func notReady(reason, message string) v1beta1.TensorBoardCondition {
	return v1beta1.TensorBoardCondition{
		Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}
}

// follow gives a condition the times that follow from the one before, and cuts its message. One that says the same as
// before stays as it is: that time passes is no news.
func follow(
	before *v1beta1.TensorBoardCondition, c v1beta1.TensorBoardCondition, asked bool, now time.Time,
) v1beta1.TensorBoardCondition {
	c.Message = report.Truncated(c.Message, report.MaxMessage)
	same := before != nil && before.Status == c.Status && before.Reason == c.Reason
	// What these say has times and ports in it.
	if same && (before.Message == c.Message || c.Type == v1beta1.ConditionIdle || c.Reason == v1beta1.ReasonProbeFailed) {
		return *before
	}
	c.LastTransitionTime = metav1.NewTime(now)
	c.LastProbeTime = nil
	if before != nil {
		c.LastProbeTime = before.LastProbeTime
		if before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	if asked && c.Type != v1beta1.ConditionReady {
		c.LastProbeTime = &metav1.Time{Time: now}
	}
	return c
}

func condition(conditions []v1beta1.TensorBoardCondition, name string) *v1beta1.TensorBoardCondition {
	for i := range conditions {
		if conditions[i].Type == name {
			return &conditions[i]
		}
	}
	return nil
}

func podStatus(pod *corev1.Pod) *v1beta1.PodStatus {
	if pod == nil {
		return nil
	}
	return &v1beta1.PodStatus{
		Reference: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Phase: pod.Status.Phase,
	}
}

// isReady says that TensorBoard answers, as the sidecar tells the kubelet.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// whyNotReady says why a pod that should run does not answer.
func whyNotReady(pod *corev1.Pod) (reason, message string) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
			message := fmt.Sprintf("container %s of %s ends again and again", s.Name, pod.Name)
			if last := s.LastTerminationState.Terminated; last != nil {
				message += fmt.Sprintf(", with exit code %d: %s", last.ExitCode, last.Message)
			}
			return v1beta1.ReasonCrashing, message
		}
	}
	return policy.WhyPending(pod)
}
