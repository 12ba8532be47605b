package explore

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/kit/model"
)

// believed is by how much the end of a container must precede the deletion of its pod to be believed.
const believed = 2 * time.Second

// succeeds notes that the leader of a job of one replica has succeeded. If its pod is held, that ends the job, whatever
// happens to the pod later.
func (m *machine) succeeds(pod *corev1.Pod) {
	s := m.state
	job := s.live.Objects.Job()
	if !plan.IsHeld(pod) || pod.DeletionTimestamp != nil || s.shape.Replicas > 1 || job == nil || s.spent.edits > 0 ||
		model.AttemptLabel(pod) != model.AttemptOf(*job.JobStatus(), pod.Name) {
		return
	}
	s.succeededAt = s.now
}

// goesSoon notes that something happens to a pod. If it is deleted soon after it succeeded, the end may be the
// deletion's.
func (m *machine) goesSoon(pod *corev1.Pod) {
	if s := m.state; pod.DeletionTimestamp == nil && s.now.Sub(s.succeededAt) <= believed {
		s.succeededAt = time.Time{}
	}
}

// checkHeld returns what is wrong with the pods that are held, in a state in which nothing happens by itself any more.
func (s *state) checkHeld(k model.Kind) []string {
	job := s.live.Objects.Job()
	status := job.JobStatus()
	var wrong []string
	if !s.succeededAt.IsZero() && s.spent.edits == 0 && status.Phase != batchv1beta1.JobPhaseSucceeded {
		wrong = append(wrong, "the leader succeeded, and the job is "+string(status.Phase))
	}
	for _, pod := range s.live.Objects.Pods() {
		isAwaited := k.HoldsLeaders && !status.Finished() && pod.Labels[batchv1beta1.LabelReplicaIndex] == "0"
		switch {
		case isAwaited && !plan.IsHeld(pod):
			wrong = append(wrong, "the pod of the leader is not held")
		case !isAwaited && plan.IsHeld(pod):
			wrong = append(wrong, "pod "+pod.Name+" is held")
		}
	}
	return wrong
}
