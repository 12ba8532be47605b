package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// Admission is the observed object through which another controller admits the pods of a job, such as a PodGroup.
// Package dependents implements it.
type Admission interface {
	// Request returns how to change the object so that it requests what the job needs now.
	Request(job *Job, need Need) Answer
	// Release returns how to release the resources that the object holds, once the job needs no more pods.
	Release(job *Job, rest Rest) Answer
	// Standing returns whether the job with the given UID may run.
	Standing(job types.UID) Standing
	// Join sets the field Join of each pod to create, so that the pod becomes a member of the admitted object. All of
	// these pods are admitted. leader is the name of the job's first pod. present are the pods of the current attempt that
	// have not ended.
	Join(job *Job, creates []Creation, leader string, present []*corev1.Pod)
	// WhyPending returns why a pod does not run yet. known is false if the object does not have the reason.
	WhyPending(job *Job, pod *corev1.Pod) (reason, message string, known bool)
	// Expired reports whether the admission of the job has reached its maximum duration, and returns a message.
	Expired(job types.UID) (message string, expired bool)
	// IsUnknown reports whether the controller does not know yet which objects exist.
	IsUnknown() bool
	// OwnUID returns the UID of the object if the given job controls it, and an empty UID otherwise.
	OwnUID(job types.UID) types.UID
}

// Need describes the replicas that a job requests admission for.
type Need struct {
	// Roles are the roles of the job, with its current replicas.
	Roles []framework.Role
	// Done counts, by type, the replicas that have ended and are not restarted now. They run again if all replicas are
	// restarted, or if the user raises backoffLimit.
	Done map[string]int32
	// Spent counts, by type, the replicas of Done that have no pod that runs and never run again, as long as the user does
	// not change the policies of the job.
	Spent map[string]int32
	// Scheduling reports whether a replica has no node, or needs another one.
	Scheduling bool
	// Pods is the number of pods of the job, of all attempts.
	Pods int
	// Ready counts, by type, the replicas that are ready or have ended. If an elastic job trains, it counts all replicas.
	Ready map[string]int32
	// Elsewhere reports whether another cluster runs the replicas. Then Pods and Ready are those of the status that Kueue
	// has copied, and Done and Spent are unknown.
	Elsewhere bool
}

// Rest is what is left of a job that needs no more pods.
type Rest struct {
	// Pods is the number of pods of the job.
	Pods int
	// End is the condition that records how the job has ended. It is nil until no pod can run anymore, and for a job that
	// is paused.
	End *metav1.Condition
}

// Standing is whether a job may run. The zero value means that it may.
type Standing struct {
	// Waits reports whether the job waits for its admission. Until it is admitted, the job has not started.
	Waits bool
	// Stops is why the replicas that run must stop. It is empty if they may go on.
	Stops string
	// AdmittedBy is the UID of the object that has admitted the job. Pods without the label LabelAdmittedBy with this
	// value were not admitted by it. It is empty if pods do not have the label.
	AdmittedBy types.UID
	// AssignsNodes reports whether the controller of the admission also assigns the nodes of the pods.
	AssignsNodes bool
}

// Answer is a decision about the object of an Admission, and its consequences for missing pods.
type Answer struct {
	// Change is the change of the object.
	Change Change
	// Wait is why missing pods are not created yet. Nil means that they are admitted.
	Wait *Wait
	// Most is the number of replicas of each type that are admitted. Only the other ones wait. Nil means that either all
	// or none are admitted.
	Most map[string]int32
	// Problem is why the job cannot have the object. Nil means no problem.
	Problem *report.RefusedError
	// RetryAfter is how long until the job is reconciled again if no event arrives. Zero means no retry.
	RetryAfter time.Duration
}

// Wait explains why missing pods are not created yet. Reason and Message are those of a condition.
type Wait struct {
	Reason, Message string
	// NeedsHelp reports whether the wait does not end without intervention.
	NeedsHelp bool
}

// Change is a change of an object that a job owns. The zero value changes nothing.
type Change struct {
	// OfStatus reports whether an update changes the status of the object instead of the rest.
	OfStatus bool
	// Action is a value of DependentStatus.Action. Empty means none.
	Action string
	// Seen is the observed object. It is nil if Action creates the object.
	Seen Object
	// Wanted is the object that the job needs. It is nil if Action deletes the object.
	Wanted Object
}

// Object is any object of the Kubernetes API. It has the methods of controller-runtime's client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// seekAdmission requests the admission that the job needs. Pods that are not admitted yet are removed from Creates.
// Pods that are admitted become members of the object. Existing pods are kept.
func (s *steps) seekAdmission() {
	admission := s.seen.Admission
	if admission == nil {
		return
	}
	answer := admission.Request(&s.job, Need{
		Roles: s.roles, Done: s.doneByRole(), Spent: s.spentByRole(), Scheduling: s.needsScheduling(),
		Pods: len(s.seen.Pods), Ready: s.readyByRole(),
	})
	s.follow(answer)
	if s.refusal != nil || s.waitsFor != nil && answer.Most == nil {
		s.Creates = nil
	}
	if answer.Most != nil {
		s.limitCreations(answer.Most)
	}
	if len(s.Creates) > 0 {
		admission.Join(&s.job, s.Creates, s.replicas[0].member.Name, s.presentPods())
	}
}

// limitCreations removes creations, so that no type has more replicas than are admitted. A replica that is being
// replaced, or waits for its restart, keeps its place.
func (s *steps) limitCreations(most map[string]int32) {
	count := s.countByRole(func(r *replica) bool {
		return r.done || r.pod != nil || r.recorded.RestartTime != nil && r.recorded.RestartTime.After(s.now)
	})
	s.Creates = slices.DeleteFunc(s.Creates, func(c Creation) bool {
		count[c.Type]++
		return count[c.Type] > most[c.Type]
	})
}

// endAdmission releases the resources that the job holds, once it needs no more pods. A finished job can have pods that
// still run, since cleanUpPolicy None keeps them.
func (s *steps) endAdmission() {
	if s.seen.Admission == nil {
		return
	}
	rest := Rest{Pods: len(s.seen.Pods)}
	if s.Status.Finished() && !slices.ContainsFunc(slices.Collect(maps.Values(s.seen.Pods)), policy.MayRun) {
		rest.End = decisionOf(s.Status)
	}
	s.follow(s.seen.Admission.Release(&s.job, rest))
}

// follow adds an answer to the decision.
func (s *steps) follow(answer Answer) {
	s.Admission = answer.Change
	s.waitsFor = answer.Wait
	s.refusal = cmp.Or(s.refusal, answer.Problem)
	if answer.RetryAfter > 0 {
		s.wakeAt(s.now.Add(answer.RetryAfter))
	}
}

// doneByRole counts the replicas of each type that have ended and are not restarted.
func (s *steps) doneByRole() map[string]int32 { return s.countByRole((*replica).hasDonePart) }

// spentByRole counts the replicas of each type that never run again, as long as the user does not change the policies
// of the job. Such a replica has succeeded, and nothing restarts it: a failed one runs again after a change of
// backoffLimit. An elastic job can replace any replica.
func (s *steps) spentByRole() map[string]int32 {
	restartsAlone := s.job.Spec.Elastic == nil && !policy.RestartsTogether(s.job.Spec)
	return s.countByRole(func(r *replica) bool {
		return restartsAlone && r.succeeded() && (r.pod == nil || !policy.MayRun(r.pod))
	})
}

// readyByRole counts the replicas of each type that are ready, or have ended and are not restarted. It counts all
// replicas of an elastic job that trains.
func (s *steps) readyByRole() map[string]int32 {
	trains := s.trainsWithLess()
	return s.countByRole(func(r *replica) bool { return trains || r.hasDonePart() || r.isCurrent() && r.outcome.Ready })
}

// countByRole counts the replicas of each type that match.
func (s *steps) countByRole(matches func(*replica) bool) map[string]int32 {
	count := map[string]int32{}
	for _, r := range s.replicas {
		if matches(r) {
			count[r.member.Role.Type]++
		}
	}
	return count
}

// needsScheduling reports whether a replica has no node, or needs another one.
func (s *steps) needsScheduling() bool {
	return slices.ContainsFunc(s.replicas, func(r *replica) bool {
		hasNode := r.isCurrent() &&
			(r.pod.Spec.NodeName != "" || r.outcome.Phase != batchv1beta1.ReplicaPhasePending)
		return !r.hasDonePart() && !hasNode
	})
}

// presentPods returns the pods of the current attempt that have not ended.
func (s *steps) presentPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, r := range s.replicas {
		if r.isCurrent() && !r.hasDonePart() {
			pods = append(pods, r.pod)
		}
	}
	return pods
}

// whyPending returns why a pod does not run yet.
func (s *steps) whyPending(pod *corev1.Pod) (reason, message string) {
	if s.seen.Admission != nil {
		if reason, message, known := s.seen.Admission.WhyPending(&s.job, pod); known {
			return reason, message
		}
	}
	reason, message = policy.WhyPending(pod)
	if reason == batchv1beta1.ReasonPending {
		message += s.unprepared(pod)
	}
	return reason, message
}

// prepareDelay is how long the kubelet can take to prepare a pod before the job reports it.
const prepareDelay = time.Minute

// unprepared returns the end of a message about a starting pod that the kubelet has not prepared in time: for example,
// because a ConfigMap or a Secret that it mounts does not exist. The status of a pod does not have the reason. The
// message is empty for other pods.
func (s *steps) unprepared(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReadyToStartContainers || c.Status != corev1.ConditionFalse {
			continue
		}
		if due := c.LastTransitionTime.Add(prepareDelay); s.now.Before(due) {
			s.wakeAt(due)
			return ""
		}
		return ", but its volumes or its network have not been ready since " +
			c.LastTransitionTime.UTC().Format("15:04:05 MST") + ": see the events of the pod"
	}
	return ""
}

// announceWait emits an event when the job starts to wait for the given reason and the wait does not end without
// intervention.
func (s *steps) announceWait(reason string) {
	if s.waitsFor == nil || s.waitsFor.Reason != reason || !s.waitsFor.NeedsHelp {
		return
	}
	before := meta.FindStatusCondition(s.job.Status.Conditions, batchv1beta1.ConditionRunning)
	if before == nil || before.Reason != reason {
		s.announcesWait = true
		s.addEvent(corev1.EventTypeWarning, reason, "Queue", s.waitsFor.Message)
	}
}

// isAdmissionUnknown reports whether the job needs an admission whose state the controller does not know yet.
func (v *view) isAdmissionUnknown() bool {
	return v.seen.Admission != nil && v.seen.Admission.IsUnknown()
}
