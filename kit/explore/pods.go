package explore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/kit/model"
)

// podActions returns the actions that can happen to a pod.
func (x options) podActions(s *state, pod *corev1.Pod) []action {
	var actions []action
	index := pod.Labels[batchv1beta1.LabelReplicaIndex]
	happens := func(name string, quiet int, what model.Mishap) {
		actions = append(actions, action{name: "pod " + index + " " + name, quiet: quiet, do: func(m *machine) {
			m.happen(pod, what)
		}})
	}
	fail := func(name string, ignored bool, what model.Mishap) {
		if !x.left(s, s.spent.failures, x.budget.failures) || !slices.Contains(x.failures, name) {
			return
		}
		actions = append(actions, action{name: "pod " + index + " " + name, do: func(m *machine) {
			m.state.spent.failures++
			m.owe(pod, ignored || wasRestarted(pod) || kubelet.HasUnhealthyDevice(pod))
			m.happen(pod, what)
			m.goesSoon(pod)
		}})
	}
	actions = append(actions, x.trainingActions(s, pod)...)
	actions = append(actions, x.nodeActions(s, pod)...)
	running, trains := pod.Status.Phase == corev1.PodRunning, kubelet.IsTraining(pod)
	switch ends := model.Ends(pod); {
	case ends != nil && running:
		happens("stops because it is being deleted", clusterWorks, ends)
	case ends != nil:
		happens("is removed by its kubelet", clusterWorks, ends)
	case pod.DeletionTimestamp != nil: // the node of the pod is unreachable, or only finalizers keep the pod
	case pod.Status.Phase == corev1.PodPending:
		if name, starts := x.starts(pod); starts != nil {
			happens(name, clusterWorks, starts)
		}
		fail("is deleted by force", true, model.Vanishes)
	case running && !trains: // only its sidecars still run
		happens("ends because its sidecars end", notByItself, model.EndsSidecars(kubelet.ExitTerminated))
		fail("is deleted", true, model.IsDeleted)
		fail("is deleted by force", true, model.Vanishes)
	case running:
		fail("loses its sidecars", true, model.EndsSidecars(1))
		if index == "0" || s.shape.RestartPolicy != model.Always {
			actions = append(actions, action{name: "pod " + index + " succeeds", do: func(m *machine) {
				// If the container was restarted in place, its success hides the earlier failure. So this failure need not count.
				m.state.unclear = m.state.unclear || wasRestarted(pod)
				m.happen(pod, model.Exits(0, ""))
				m.succeeds(pod)
			}})
		} else {
			fail("succeeds", true, model.Exits(0, ""))
		}
		fail("fails", false, model.Exits(1, ""))
		fail("is restarted in place", false, model.RestartsInPlace(1))
		fail("loses its attempt label", true, model.LosesLabel(batchv1beta1.LabelAttempt))
		fail("loses its job-kind label", true, model.LosesLabel(batchv1beta1.LabelJobKind))
		fail("loses its job-name label", true, model.LosesLabel(batchv1beta1.LabelJobName))
		fail("is killed", false, model.Exits(kubelet.ExitKilled, ""))
		fail("is deleted", true, model.IsDeleted)
		fail("is deleted by force", true, model.Vanishes)
		fail("is preempted", true, model.IsPreempted)
		fail("loses its node", true, model.LosesItsNode)
	case view.IsHeld(pod): // the pod has ended
		fail("is deleted", true, model.IsDeleted)
		fail("is deleted by force", true, model.Vanishes)
	}
	return actions
}

// wasRestarted reports whether the kubelet restarted a container of the pod. Later failures of such a pod need not
// count.
func wasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.RestartCount > 0
	})
}

// happen makes a mishap happen to a pod.
func (m *machine) happen(pod *corev1.Pod, what model.Mishap) {
	m.must(func(c *model.Cluster) error { return what(c, pod) })
}

// owe records that the controller must count a failure of a pod. With the restart scope Job, all failures of one
// attempt count as one. With the default scope, the controller can count failures of one attempt as one or as
// several. An ignored failure need not count.
func (m *machine) owe(pod *corev1.Pod, ignored bool) {
	s := m.state
	job := s.live.Objects.Job()
	if job == nil || job.JobStatus().Decided() {
		return
	}
	if ignored || model.IsRelabelled(pod) || model.AttemptLabel(pod) != model.AttemptOf(*job.JobStatus(), pod.Name) {
		s.unclear = true
		return
	}
	isCounted := func(other *corev1.Pod) bool {
		return model.AttemptLabel(other) == model.AttemptLabel(pod) &&
			(kubelet.HasFailed(other) || wasRestarted(other)) && other.DeletionTimestamp == nil &&
			!kubelet.HasUnhealthyDevice(other)
	}
	if slices.ContainsFunc(s.live.Objects.Pods(), isCounted) {
		switch s.shape.RunPolicy.RestartScope {
		case model.ScopeJob:
			return
		case model.ScopeReplica:
		default: // the first failure can restart all replicas before the controller counts the second one
			s.unclear = true
		}
	}
	s.counted++
}
