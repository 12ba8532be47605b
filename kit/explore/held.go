package explore

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/model"
)

// heldExplorations returns the small jobs whose controller holds the pod of the leader.
func heldExplorations() []exploration {
	slow := allFaults
	slow.ticks = 1
	return []exploration{
		{
			name: "a job of one replica survives faults while its pod is held", added: true, holds: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: slow, briefly: 2,
		},
		{
			name: "a job that restarts as a whole survives faults while its leader is held", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted by force", "loses its node"}, edits: userEdits,
			budget: allFaults,
		},
		{
			name: "a job whose replicas restart alone expires while its leader is held", holds: true,
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"is deleted", "is deleted by force"}, edits: []edit{pauses, deletesInForeground},
			budget: allFaults,
		},
	}
}

// believed is a limit on the time between the end of a container and a later deletion of its pod. Up to the limit,
// the controller may regard the deletion as the cause of the end. Beyond the limit, it must believe that the
// container ended by itself.
const believed = 2 * time.Second

// succeeds records that the leader has succeeded, if this success must end the job regardless of later events. That
// is the case if the job has one replica, the user has changed nothing, and the pod is held, belongs to the current
// attempt and is not being deleted.
func (m *machine) succeeds(pod *corev1.Pod) {
	s := m.state
	job := s.live.Objects.Job()
	if !view.IsHeld(pod) || pod.DeletionTimestamp != nil || s.shape.Replicas > 1 || job == nil || s.spent.edits > 0 ||
		model.AttemptLabel(pod) != model.AttemptOf(*job.JobStatus(), pod.Name) {
		return
	}
	s.succeededAt = s.now
}

// goesSoon is called after each fault of a pod. If the pod has succeeded before, the fault can only be a deletion of
// the pod. A deletion soon after the success may have caused the end of the container. Then the job need not succeed,
// so goesSoon removes the record of the success. See the constant believed.
func (m *machine) goesSoon(pod *corev1.Pod) {
	if s := m.state; pod.DeletionTimestamp == nil && s.now.Sub(s.succeededAt) <= believed {
		s.succeededAt = time.Time{}
	}
}

// checkHeld returns the violations that concern held pods in a state at rest.
func (s *state) checkHeld(k model.Kind) []string {
	job := s.live.Objects.Job()
	status := job.JobStatus()
	var wrong []string
	if !s.succeededAt.IsZero() && s.spent.edits == 0 && status.Phase != batchv1beta1.JobPhaseSucceeded {
		wrong = append(wrong, "the leader succeeded, but the job is "+string(status.Phase))
	}
	for _, pod := range s.live.Objects.Pods() {
		isAwaited := k.HoldsLeaders && !status.Finished() && pod.Labels[batchv1beta1.LabelReplicaIndex] == "0"
		switch {
		case isAwaited && !view.IsHeld(pod):
			wrong = append(wrong, "the pod of the leader does not have the finalizer")
		case !isAwaited && view.IsHeld(pod):
			wrong = append(wrong, "pod "+pod.Name+" still has the finalizer of a leader")
		}
	}
	return wrong
}
