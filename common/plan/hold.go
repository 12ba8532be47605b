package plan

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// hold keeps the pods of a job without replicas, and reports why nothing runs.
func (s *steps) hold() {
	const reason, message = batchv1beta1.ReasonNoReplicas, "every replicaSpec has 0 replicas: nothing can run"
	s.identify()
	hasStarted := s.Status.StartTime != nil
	if hasStarted {
		s.wakeAtDeadline()
	} else {
		s.resume()
	}
	s.Status.Phase = cmp.Or(s.Status.Phase, batchv1beta1.JobPhasePending)
	s.Status.Reason = reason
	// The tasks of a started job stay as they are: a failure that they record now would not be counted.
	if !hasStarted {
		s.setTasks()
	}
	s.refuse(reason, message)
	if !isRunning(s.Status) {
		s.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
	}
}
