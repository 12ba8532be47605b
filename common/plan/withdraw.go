package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// standing returns whether the job may run, as far as its admission is concerned.
func (v *view) standing() Standing {
	if v.seen.Admission == nil {
		return Standing{}
	}
	return v.seen.Admission.Standing(v.job.UID)
}

// waitsForStart reports whether the job has not started, or not started again, because it waits for its admission. A
// job whose pods exist has started, even if its first status write is deferred and its admission is withdrawn by now.
func (v *view) waitsForStart() bool {
	return v.job.Status.StartTime == nil && v.standing().Waits && !slices.ContainsFunc(v.replicas, (*replica).isCurrent)
}

// whyStop returns why the pods of the present attempt must go. It is empty if they may stay, or if there are none.
func (v *view) whyStop() string {
	standing := v.standing()
	for _, r := range v.replicas {
		if !r.isCurrent() {
			continue
		}
		if standing.Stops != "" {
			return standing.Stops // the pod of a replica that has ended holds the quota, too
		}
		if r.done {
			continue
		}
		if by := standing.AdmittedBy; by != "" && r.pod.Labels[batchv1beta1.LabelAdmittedBy] != string(by) {
			return fmt.Sprintf("%s was not created for the present admission of the job", r.pod.Name)
		}
	}
	return ""
}

// withdraw stops all replicas of a job whose admission is withdrawn. The job waits for its next admission. why is why
// the pods must go.
func (s *steps) withdraw(why string) {
	s.Status.StartTime = nil
	s.evict(why)
	if meta.IsStatusConditionTrue(s.Status.Conditions, batchv1beta1.ConditionReplicaFailure) {
		s.setCondition(batchv1beta1.ConditionReplicaFailure, metav1.ConditionFalse, batchv1beta1.ReasonQueued, why)
	}
}

// evict stops all replicas. As a pause, it begins a new attempt, so that all pods belong to an earlier one and their
// failures are ignored. The status is written before the first pod is deleted.
func (s *steps) evict(why string) {
	s.Status.Evictions++
	s.view = s.inNewAttempt(jobAttempt(s.Status), nil)
	s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventStopped, "Stop", why)
}
