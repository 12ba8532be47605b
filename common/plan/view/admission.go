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

// Admission is the observed object, such as a PodGroup, through which another controller admits the pods of a job.
// Package admission has the implementations.
type Admission interface {
	// Standing returns the effect of the object on the job with the given UID.
	Standing(job types.UID) Standing
	// Request returns a change after which the object requests the replicas that the job needs now. The answer also
	// shows which missing pods must still wait.
	Request(job *Job, need Need) Answer
	// Join sets the field Join of each creation, so that the new pod becomes a member of the object. The object has
	// already admitted all of the new pods. The parameter leader is the name of the job's first pod. The parameter
	// present has the pods of the current attempt that have not ended.
	Join(job *Job, creates []Creation, leader string, present []*corev1.Pod)
	// Withdraw returns how to release the resources that the object holds, once the job needs no more pods.
	Withdraw(job *Job, rest Rest) Answer
}

// Need describes the replicas that a job requests admission for.
type Need struct {
	// Roles are the roles of the job, with its current replicas.
	Roles []framework.Role
	// Done counts, by type, the replicas that have ended and are not restarted now. They can still run again if all
	// replicas are restarted, or if the user raises backoffLimit.
	Done map[string]int32
	// Spent counts, by type, the replicas of Done whose resources are no longer needed: they have no running pod, and
	// they never run again unless the user changes the policies of the job.
	Spent map[string]int32
	// Scheduling reports whether a replica that has not ended still needs a node, for its current pod or for the next
	// one.
	Scheduling bool
	// Pods is the number of pods of the job, including pods of earlier attempts.
	Pods int
	// Ready counts, by type, the replicas that are ready or have ended. If an elastic job trains, Ready counts all
	// replicas.
	Ready map[string]int32
	// Elsewhere reports whether another cluster runs the replicas. If so, Pods and Ready come from the status that Kueue
	// has copied from that cluster, and Done, Spent and Scheduling are not set.
	Elsewhere bool
}

// Rest describes a job that needs no more pods.
type Rest struct {
	// Pods is the number of pods of the job.
	Pods int
	// End is the condition that records how the job has ended. Nil unless the job has finished and none of its pods can
	// still run.
	End *metav1.Condition
}

// Standing is the effect of an admission on a job. The zero value means that the job can run.
type Standing struct {
	// Unknown reports whether the controller does not know yet if the object exists.
	Unknown bool
	// UID is the UID of the object if the job controls it. Otherwise, it is empty.
	UID types.UID
	// Waits reports whether the job must not start yet, because it is not admitted. A job with a PodGroup never waits in
	// this sense: it counts as started before its Queue admits it.
	Waits bool
	// Stops is why the replicas that run must stop. It is empty if they may go on.
	Stops string
	// AdmittedBy is the UID of the object that has admitted the job. A pod whose label LabelAdmittedBy has another value
	// belongs to another admission, and must stop. Empty means that the label does not matter.
	AdmittedBy types.UID
	// AssignsNodes reports whether the controller that admits the pods also assigns their nodes.
	AssignsNodes bool
	// Expired reports whether the admission has reached its maximum duration. WhyExpired is the message about that.
	Expired    bool
	WhyExpired string
	// WhyPending returns why a pod does not run yet. The result known is false if the object does not have the reason.
	// If WhyPending is nil, only the status of the pod can have the reason.
	WhyPending func(pod *corev1.Pod) (reason, message string, known bool)
}

// Answer is a decision about the object of an Admission, and about which missing pods are created.
type Answer struct {
	// Change is the change of the object.
	Change Change
	// Wait is why missing pods are not created yet. Nil means that none of them has to wait.
	Wait *Wait
	// Most is the number of admitted replicas, by type. The other replicas wait. If Most and Wait are nil, all replicas
	// are admitted. If Most is nil and Wait is set, none is admitted.
	Most map[string]int32
	// Problem is why the job cannot have the object. Nil means no problem.
	Problem *report.RefusedError
	// RetryAfter is how long until the job is reconciled again if no event arrives. Zero means no retry.
	RetryAfter time.Duration
}

// Wait explains why missing pods are not created yet. The condition Running shows Reason and Message.
type Wait struct {
	Reason, Message string
	// NeedsHelp reports whether the wait does not end without intervention.
	NeedsHelp bool
}

// Change is a change of an object that a job owns. The zero value changes nothing.
type Change struct {
	// OfStatus reports whether an update changes the status of the object. If false, an update changes the metadata and
	// the spec.
	OfStatus bool
	// Action is a value of DependentStatus.Action. Empty means none.
	Action string
	// Seen is the observed object. It is nil if Action creates the object.
	Seen Object
	// Wanted is the object that the job needs. It is nil if Action deletes the object.
	Wanted Object
}

// Snapshot is the observed state of an object that a job needs.
type Snapshot[T Object] struct {
	// Object is the object with the name that the job needs. The job or somebody else can own it. Nil means that the
	// object does not exist. If Unknown or Problem is set, nil means that the object was not read.
	Object T
	// Unknown reports whether the controller does not know yet if the object exists.
	Unknown bool
	// Problem is why the object cannot be read, or why the job cannot have it. Nil means no problem.
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

// WhyStop returns why the pods of the present attempt must be deleted. It is empty if they may stay, or if there are
// none.
func (v *View) WhyStop() string {
	for _, r := range v.Replicas {
		if !r.IsCurrent() {
			continue
		}
		if v.Standing.Stops != "" {
			return v.Standing.Stops // a pod uses quota even if its replica has ended
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

// PrepareDue returns when the job reports that the volumes or the network of a pod are still not ready. It returns
// zero if the kubelet is not preparing them, or if there is a more specific reason why the pod is pending.
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

// prepareDelay is how long the kubelet can take to prepare a pod before the job reports the pod as not ready.
const prepareDelay = time.Minute

// prepareDue returns when the kubelet should have prepared a pod. It returns zero if the kubelet has prepared it, or
// has not begun. A pod stays unprepared if, for example, a ConfigMap or a Secret that it mounts does not exist. The
// status of the pod does not have the reason.
func prepareDue(pod *corev1.Pod) time.Time {
	c := policy.ConditionOf(pod, corev1.PodReadyToStartContainers)
	if c.Status != corev1.ConditionFalse {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(prepareDelay)
}
