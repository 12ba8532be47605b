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

// observation is the observed state of a TensorBoard: its objects, and the response of its sidecar.
type observation struct {
	// Pod is the pod that runs TensorBoard, or nil if there is none.
	Pod *corev1.Pod
	// Wanted is the server that the current spec requires.
	Wanted server
	// Claims is the state of the claims that TensorBoard mounts.
	Claims claims
	// Group is the PodGroup of a TensorBoard that is scheduled from a queue.
	Group groupView
	// Answer is the response of the sidecar, or nil if the controller has not sent a request.
	Answer *answer
}

// answer is the response of the sidecar, or the error of the request.
type answer struct {
	Status sidecar.Status
	Err    error
}

// decision contains the actions for a TensorBoard, and its new status.
type decision struct {
	Status v1beta1.TensorBoardStatus
	// Create creates a pod. Delete deletes the observed pod. Force deletes it without a grace period, if its node is lost.
	Create, Delete, Force bool
	// CreateGroup creates the PodGroup. DeleteGroup deletes it and so releases its quota.
	CreateGroup, DeleteGroup bool
	// Suspend suspends the TensorBoard, because it was idle for too long.
	Suspend bool
	// RequeueAt is when to reconcile the TensorBoard again even if nothing happens. Zero means never.
	RequeueAt time.Time
}

const (
	// pollInterval is the time between two reconciles of a TensorBoard that waits for a claim, for its PodGroup, or
	// until its pod is ready. Claims and PodGroups are not watched.
	pollInterval = 5 * time.Second
	// replacementDelay is the minimum age of a pod that is replaced because it has ended. It limits the load on the
	// cluster from a pod that is evicted repeatedly.
	replacementDelay = time.Minute
	// nodeLostDelay is the time between the end of the grace period of a terminating pod and its forced deletion. The
	// node of the pod is then considered lost. If the pod still runs, it does no harm, since it only reads.
	nodeLostDelay = time.Minute
	// refusalDelay is the time between two attempts to create or change an object that the API server rejects.
	refusalDelay = 30 * time.Second
)

// plan returns the actions for a TensorBoard, and its new status. It is a pure function.
func plan(tb *v1beta1.TensorBoard, seen observation, options Options, now time.Time) decision {
	d := decision{Status: *tb.Status.DeepCopy()}
	d.Status.ObservedGeneration = tb.Generation
	d.Status.URL = seen.Wanted.URL
	d.Status.Pod = podStatus(seen.Pod)
	phase, ready := d.pod(tb, seen, now)
	d.Status.Phase = phase
	d.Status.Conditions = []v1beta1.TensorBoardCondition{
		ready, sourcesAvailable(seen.Answer), d.idle(tb, seen, options, now),
	}
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		*c = follow(condition(tb.Status.Conditions, c.Type), *c, seen.Answer != nil, now)
	}
	return d
}

// pod decides whether to create or delete the pod. It returns the phase of the TensorBoard and its condition Ready.
func (d *decision) pod(
	tb *v1beta1.TensorBoard, seen observation, now time.Time,
) (v1beta1.TensorBoardPhase, v1beta1.TensorBoardCondition) {
	pod := seen.Pod
	switch {
	case pod != nil && !pod.DeletionTimestamp.IsZero():
		// The deletionTimestamp of a pod is the end of its grace period.
		isDue := d.isDue(pod.DeletionTimestamp.Add(nodeLostDelay), now)
		d.Delete, d.Force = isDue, isDue
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping, "pod "+pod.Name+" is terminating")
	case tb.Spec.Suspend && pod != nil:
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping,
			"pod "+pod.Name+" is terminating because spec.suspend is true")
	case tb.Spec.Suspend:
		d.DeleteGroup = seen.Group.Object != nil && metav1.IsControlledBy(seen.Group.Object, tb)
		return v1beta1.TensorBoardSuspended, suspended(tb)
	case pod == nil && seen.Claims.Reason != "":
		d.RequeueAt = now.Add(pollInterval)
		phase := v1beta1.TensorBoardPending
		if seen.Claims.Reason == v1beta1.ReasonClaimExclusive {
			phase = v1beta1.TensorBoardFailed
		}
		return phase, notReady(seen.Claims.Reason, seen.Claims.Message)
	case pod == nil:
		if t9kScheduler(&tb.Spec) != nil {
			if phase, waits := d.joinQueue(tb, seen.Group); phase != "" {
				d.RequeueAt = now.Add(pollInterval) // PodGroups are not watched
				return phase, waits
			}
		}
		d.Create = true
		return v1beta1.TensorBoardPending, notReady(batchv1beta1.ReasonCreating, "the pod is being created")
	case pod.Annotations[annotationSpecHash] != seen.Wanted.Hash:
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonStopping,
			"pod "+pod.Name+" is terminating because the spec has changed")
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		d.Delete = d.isDue(pod.CreationTimestamp.Add(replacementDelay), now)
		return v1beta1.TensorBoardPending, notReady(batchv1beta1.ReasonRestarting,
			fmt.Sprintf("pod %s has ended and will be replaced: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message))
	case isMisplaced(pod, seen.Claims.WantedOn):
		d.Delete = true
		return v1beta1.TensorBoardPending, notReady(v1beta1.ReasonGivingWay, seen.Claims.Message)
	case isReady(pod):
		return v1beta1.TensorBoardRunning, v1beta1.TensorBoardCondition{
			Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonServing,
			Message: "TensorBoard answers",
		}
	}
	d.RequeueAt = now.Add(pollInterval) // a pod on another node might need the claims before this pod is ready
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

// isDue reports whether a time has come. If not, it sets RequeueAt to that time.
func (d *decision) isDue(at, now time.Time) bool {
	if now.Before(at) {
		d.RequeueAt = at
		return false
	}
	return true
}

// refuse sets the phase Failed in the status, and the reason why an object could not be created. It requeues the
// TensorBoard, because a later attempt can succeed.
func (d *decision) refuse(tb *v1beta1.TensorBoard, refused *report.RefusedError, now time.Time) {
	d.Status.Phase = v1beta1.TensorBoardFailed
	ready := condition(d.Status.Conditions, v1beta1.ConditionReady)
	*ready = follow(condition(tb.Status.Conditions, v1beta1.ConditionReady), notReady(refused.Reason, refused.Error()),
		false, now)
	d.RequeueAt = now.Add(refusalDelay)
}

// isMisplaced reports whether a pod must be replaced because it is not, or would not be, on the node where another
// pod needs its claims. This node is wantedOn, which is empty if no other pod needs the claims. A pod on a node is
// misplaced if wantedOn is another node. A pod without a node is misplaced if its affinity does not name wantedOn, or
// names a node although wantedOn is empty.
func isMisplaced(pod *corev1.Pod, wantedOn string) bool {
	if pod.Spec.NodeName == "" {
		return nodeOf(pod) != wantedOn
	}
	return wantedOn != "" && pod.Spec.NodeName != wantedOn
}

// idle returns the condition Idle. It also decides whether the TensorBoard has been idle so long that it must be
// suspended.
func (d *decision) idle(
	tb *v1beta1.TensorBoard, seen observation, options Options, now time.Time,
) v1beta1.TensorBoardCondition {
	c := v1beta1.TensorBoardCondition{Type: v1beta1.ConditionIdle, Status: metav1.ConditionUnknown}
	before := condition(tb.Status.Conditions, v1beta1.ConditionIdle)
	switch {
	case tb.Spec.Suspend && before != nil && before.Reason == v1beta1.ReasonCulled:
		return *before
	case seen.Answer == nil:
		c.Reason, c.Message = v1beta1.ReasonNotRunning, notRunning
		return c
	case seen.Answer.Err != nil:
		c.Reason, c.Message = v1beta1.ReasonProbeFailed, "the time of the last request is unknown: "+
			seen.Answer.Err.Error()
		d.RequeueAt = policy.Earlier(d.RequeueAt, now.Add(options.ProbeInterval))
		return c
	}
	d.RequeueAt = policy.Earlier(d.RequeueAt, now.Add(options.ProbeInterval))
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
			"TensorBoard had no request for %s and was suspended: set spec.suspend to false to bring it back", idleFor)
	}
	return c
}

// notRunning is the message of conditions that need the response of the sidecar.
const notRunning = "there is no TensorBoard to ask"

// suspended returns the condition Ready of a suspended TensorBoard. The reason depends on who suspended the
// TensorBoard: the user, or the controller.
func suspended(tb *v1beta1.TensorBoard) v1beta1.TensorBoardCondition {
	if idle := condition(tb.Status.Conditions, v1beta1.ConditionIdle); idle != nil && idle.Reason == v1beta1.ReasonCulled {
		return notReady(v1beta1.ReasonCulled, idle.Message)
	}
	return notReady(v1beta1.ReasonSuspended, "spec.suspend is true")
}

// sourcesAvailable returns the condition SourcesAvailable, from the errors that the sidecar reports.
func sourcesAvailable(a *answer) v1beta1.TensorBoardCondition {
	c := v1beta1.TensorBoardCondition{Type: v1beta1.ConditionSourcesAvailable, Status: metav1.ConditionUnknown}
	switch {
	case a == nil:
		c.Reason, c.Message = v1beta1.ReasonNotRunning, notRunning
	case a.Err != nil:
		c.Reason, c.Message = v1beta1.ReasonProbeFailed, "the state of the sources is unknown: "+a.Err.Error()
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

// follow completes a new condition: it sets the times and truncates the message. If the previous condition reports
// the same state, follow returns the previous condition instead. The parameter asked reports whether the controller
// asked the sidecar for its status.
func follow(
	before *v1beta1.TensorBoardCondition, c v1beta1.TensorBoardCondition, asked bool, now time.Time,
) v1beta1.TensorBoardCondition {
	c.Message = report.Truncated(c.Message, report.MaxMessage)
	same := before != nil && before.Status == c.Status && before.Reason == c.Reason
	// Ignore the messages of Idle and of ProbeFailed. They contain times and ports, so they differ even if the state is
	// the same.
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

// condition returns the condition of a type, or nil if there is none.
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

// isReady reports whether TensorBoard responds, according to the readiness probe of the sidecar.
func isReady(pod *corev1.Pod) bool {
	return policy.ConditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// whyNotReady returns why a pod that should run is not ready.
func whyNotReady(pod *corev1.Pod) (reason, message string) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
			message := fmt.Sprintf("container %s of pod %s crashes repeatedly", s.Name, pod.Name)
			if last := s.LastTerminationState.Terminated; last != nil {
				message += fmt.Sprintf(", last with exit code %d: %s", last.ExitCode, last.Message)
			}
			return v1beta1.ReasonCrashing, message
		}
	}
	return policy.WhyPending(pod)
}
