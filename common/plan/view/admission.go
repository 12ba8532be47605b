package view

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// Admission is the observed object through which another controller admits the pods of a job, such as a PodGroup.
// Package admission implements it.
type Admission interface {
	// Standing returns what the object means for the job with the given UID.
	Standing(job types.UID) Standing
	// Request returns how to change the object so that it requests what the job needs now.
	Request(job *Job, need Need) Answer
	// Join sets the field Join of each pod to create, so that the pod becomes a member of the admitted object. All of
	// these pods are admitted. leader is the name of the job's first pod. present are the pods of the current attempt
	// that have not ended.
	Join(job *Job, creates []Creation, leader string, present []*corev1.Pod)
	// Release returns how to release the resources that the object holds, once the job needs no more pods.
	Release(job *Job, rest Rest) Answer
}

// Need describes the replicas that a job requests admission for.
type Need struct {
	// Roles are the roles of the job, with its current replicas.
	Roles []framework.Role
	// Done counts, by type, the replicas that have ended and are not restarted now. They run again if all replicas are
	// restarted, or if the user raises backoffLimit.
	Done map[string]int32
	// Spent counts, by type, the replicas of Done that have no pod that runs and never run again, as long as the user
	// does not change the policies of the job.
	Spent map[string]int32
	// Scheduling reports whether a replica has no node, or needs another one.
	Scheduling bool
	// Pods is the number of pods of the job, of all attempts.
	Pods int
	// Ready counts, by type, the replicas that are ready or have ended. If an elastic job trains, it counts all
	// replicas.
	Ready map[string]int32
	// Elsewhere reports whether another cluster runs the replicas. Then Pods and Ready are those of the status that
	// Kueue has copied, and Done and Spent are unknown.
	Elsewhere bool
}

// Rest is what is left of a job that needs no more pods.
type Rest struct {
	// Pods is the number of pods of the job.
	Pods int
	// End is the condition that records how the job has ended. It is nil until no pod can run anymore, and for a job
	// that is paused.
	End *metav1.Condition
}

// Standing is what an admission means for a job. The zero value means that the job may run.
type Standing struct {
	// Unknown reports whether the controller does not know yet which objects exist.
	Unknown bool
	// UID is the UID of the object if the job controls it. Otherwise, it is empty.
	UID types.UID
	// Waits reports whether the job waits for its admission. Until it is admitted, the job has not started.
	Waits bool
	// Stops is why the replicas that run must stop. It is empty if they may go on.
	Stops string
	// AdmittedBy is the UID of the object that has admitted the job. Pods without the label LabelAdmittedBy with this
	// value were not admitted by it. It is empty if pods do not have the label.
	AdmittedBy types.UID
	// AssignsNodes reports whether the controller of the admission also assigns the nodes of the pods.
	AssignsNodes bool
	// Expired reports whether the admission has reached its maximum duration. WhyExpired is a message about it.
	Expired    bool
	WhyExpired string
	// WhyPending returns why a pod does not run yet. known is false if the object does not have the reason. Nil means
	// that only the pods themselves have the reason.
	WhyPending func(pod *corev1.Pod) (reason, message string, known bool)
}

// Answer is a decision about the object of an Admission, and its consequences for missing pods.
type Answer struct {
	// Change is the change of the object.
	Change Change
	// Wait is why missing pods are not created yet. Nil means that they are admitted.
	Wait *Wait
	// Most is the number of replicas of each type that are admitted. Only the other ones wait. Nil means that either
	// all or none are admitted.
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

// Snapshot is what is known of an object that a job owns.
type Snapshot[T Object] struct {
	// Object is the object that the job needs, whoever owns it. Nil means that there is none.
	Object T
	// Unknown reports whether the controller does not know yet if the object exists.
	Unknown bool
	// Problem is why the object cannot be read. Nil means no problem.
	Problem *report.RefusedError
}

// Object is any object of the Kubernetes API. It has the methods of controller-runtime's client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// WaitsForStart reports whether the job has not started, or not started again, because it waits for its admission. A
// job whose pods exist has started, even if its first status write is deferred and its admission is withdrawn by now.
func (v *View) WaitsForStart() bool {
	return v.Job.Status.StartTime == nil && v.Standing.Waits && !slices.ContainsFunc(v.Replicas, (*Replica).IsCurrent)
}

// WhyStop returns why the pods of the present attempt must go. It is empty if they may stay, or if there are none.
func (v *View) WhyStop() string {
	for _, r := range v.Replicas {
		if !r.IsCurrent() {
			continue
		}
		if v.Standing.Stops != "" {
			return v.Standing.Stops // the pod of a replica that has ended holds the quota, too
		}
		if r.Done {
			continue
		}
		if by := v.Standing.AdmittedBy; by != "" && r.Pod.Labels[batchv1beta1.LabelAdmittedBy] != string(by) {
			return fmt.Sprintf("%s was not created for the present admission of the job", r.Pod.Name)
		}
	}
	return ""
}

// WhyPending returns why a pod does not run yet.
func (v *View) WhyPending(pod *corev1.Pod) (reason, message string) {
	if v.Standing.WhyPending != nil {
		if reason, message, known := v.Standing.WhyPending(pod); known {
			return reason, message
		}
	}
	reason, message = policy.WhyPending(pod)
	if reason != batchv1beta1.ReasonPending {
		return reason, message
	}
	if due := prepareDue(pod); !due.IsZero() && !v.Now.Before(due) {
		message += ", but its volumes or its network have not been ready since " +
			due.Add(-prepareDelay).UTC().Format("15:04:05 MST") + ": see the events of the pod"
	}
	return reason, message
}

// PrepareDue returns when the job reports that the kubelet has not prepared a starting pod. It returns zero if that is
// not the reason why the pod does not run yet.
func (v *View) PrepareDue(pod *corev1.Pod) time.Time {
	due := prepareDue(pod)
	if due.IsZero() {
		return time.Time{}
	}
	if reason, _ := v.WhyPending(pod); reason != batchv1beta1.ReasonPending {
		return time.Time{}
	}
	return due
}

// prepareDelay is how long the kubelet can take to prepare a pod before the job reports it.
const prepareDelay = time.Minute

// prepareDue returns when the kubelet should have prepared a pod. It returns zero if the kubelet has prepared it, or
// has not begun. A pod stays unprepared if, for example, a ConfigMap or a Secret that it mounts does not exist. The
// status of the pod does not have the reason.
func prepareDue(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime.Add(prepareDelay)
		}
	}
	return time.Time{}
}
