package plan

import (
	"cmp"
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

// Admission is the object of a job by which another controller admits its pods, such as a PodGroup, as it was observed.
// Package dependents has the kinds of them.
type Admission interface {
	// Request decides what to do about the object so that it asks for what the job needs now.
	Request(job *Job, need Need) Answer
	// Release decides how to give back what the object holds, once the job needs no more pods.
	Release(job *Job) Answer
	// Join sets Join of the pods to create, which makes them members of what was admitted. All of them are admitted. The
	// leader is the name of the job's first pod. Present are the pods of the current attempt that have not ended.
	Join(job *Job, creates []Creation, leader string, present []*corev1.Pod)
	// WhyPending returns why a pod does not run yet, and whether the object knows.
	WhyPending(job *Job, pod *corev1.Pod) (reason, message string, known bool)
	// Expired reports whether the job has had what was admitted for as long as it may, and returns a message.
	Expired(job types.UID) (message string, expired bool)
	// IsUnknown reports whether the controller does not know yet what exists.
	IsUnknown() bool
	// OwnUID returns the UID of the object if a job controls it, and otherwise nothing.
	OwnUID(job types.UID) types.UID
}

// Need is what a job needs an admission for.
type Need struct {
	// Roles of the job, with the replicas that the job has now.
	Roles []framework.Role
	// Done counts the replicas of each type that have ended and are not restarted.
	Done map[string]int32
	// Scheduling reports whether a replica has no node, or needs another one.
	Scheduling bool
}

// Answer is what to do about the object of an Admission, and what that means for the pods that are missing.
type Answer struct {
	// Change to make.
	Change Change
	// Wait is why missing pods are not created yet. Nil means that they are admitted.
	Wait *Wait
	// Problem is why the job can have no such object. Nil means no problem.
	Problem *report.RefusedError
	// RetryAfter is how long to wait before the object is looked at again, if nothing happens. Zero means no retry.
	RetryAfter time.Duration
}

// Wait is why missing pods are not created yet, as the reason and the message of a condition.
type Wait struct {
	Reason, Message string
	// NeedsHelp reports whether the wait does not end by itself.
	NeedsHelp bool
}

// Change is a change of an object that a job owns. The zero value changes nothing.
type Change struct {
	// Action to take, as DependentStatus.Action names it. Empty means none.
	Action string
	// Seen is the object as it was observed. It is nil if Action creates it.
	Seen Object
	// Wanted is the object that the job needs. It is nil if Action deletes it.
	Wanted Object
}

// Object is any object of the Kubernetes API. It has the methods of controller-runtime's client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// seekAdmission requests the admission that the job needs. It drops the pods to create until they are admitted, and
// then makes them members. Pods that exist stay.
func (s *steps) seekAdmission() {
	admission := s.seen.Admission
	if admission == nil {
		return
	}
	s.follow(admission.Request(&s.job, Need{Roles: s.roles, Done: s.doneByRole(), Scheduling: s.needsScheduling()}))
	if s.waitsFor != nil || s.refusal != nil {
		s.Creates = nil
	}
	if len(s.Creates) > 0 {
		admission.Join(&s.job, s.Creates, s.replicas[0].member.Name, s.presentPods())
	}
}

// endAdmission gives back what the job holds, once it needs no more pods.
func (s *steps) endAdmission() {
	if s.seen.Admission != nil {
		s.follow(s.seen.Admission.Release(&s.job))
	}
}

// follow takes an answer into the decision.
func (s *steps) follow(answer Answer) {
	s.Admission = answer.Change
	s.waitsFor = answer.Wait
	s.refusal = cmp.Or(s.refusal, answer.Problem)
	if answer.RetryAfter > 0 {
		s.wakeAt(s.now.Add(answer.RetryAfter))
	}
}

// doneByRole counts the replicas of each type that have ended and are not restarted.
func (s *steps) doneByRole() map[string]int32 {
	done := map[string]int32{}
	for _, r := range s.replicas {
		if r.hasDonePart() {
			done[r.member.Role.Type]++
		}
	}
	return done
}

// needsScheduling reports whether a replica has no node, or needs another one.
func (s *steps) needsScheduling() bool {
	return slices.ContainsFunc(s.replicas, func(r *replica) bool {
		hasNode := r.pod != nil && !r.obsolete() &&
			(r.pod.Spec.NodeName != "" || r.outcome.Phase != batchv1beta1.ReplicaPhasePending)
		return !r.hasDonePart() && !hasNode
	})
}

// presentPods returns the pods of the current attempt that have not ended.
func (s *steps) presentPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, r := range s.replicas {
		if r.pod != nil && !r.obsolete() && !r.hasDonePart() {
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
	return policy.WhyPending(pod)
}

// announceWait emits an event, once, if the job waits for the reason and that does not end by itself.
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

// isAdmissionUnknown reports whether the job needs an admission that the controller does not know yet.
func (v *view) isAdmissionUnknown() bool {
	return v.seen.Admission != nil && v.seen.Admission.IsUnknown()
}
