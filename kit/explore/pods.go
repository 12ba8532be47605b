package explore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/kit/model"
)

// podActions returns what may happen to a pod.
func (x options) podActions(s *state, pod *corev1.Pod) []action {
	var actions []action
	index := pod.Labels[batchv1beta1.LabelReplicaIndex]
	happens := func(name string, quiet int, what model.Mishap) {
		actions = append(actions, action{name: "pod " + index + " " + name, quiet: quiet, do: func(m *machine) {
			m.happen(pod, what)
		}})
	}
	fail := func(name string, free bool, what model.Mishap) {
		if !x.left(s, s.spent.failures, x.budget.failures) || !slices.Contains(x.failures, name) {
			return
		}
		actions = append(actions, action{name: "pod " + index + " " + name, do: func(m *machine) {
			m.state.spent.failures++
			m.owe(pod, free || wasRestarted(pod))
			m.happen(pod, what)
			m.goesSoon(pod)
		}})
	}
	running, trains := pod.Status.Phase == corev1.PodRunning, kubelet.IsTraining(pod)
	switch ends := model.Ends(pod); {
	case ends != nil && running:
		happens("ends, as it is deleted", clusterWorks, ends)
	case ends != nil:
		happens("is let go", clusterWorks, ends)
	case pod.DeletionTimestamp != nil: // its node does not answer
	case pod.Status.Phase == corev1.PodPending:
		happens("runs", clusterWorks, model.Runs)
		fail("vanishes", true, model.Vanishes)
	case running && !trains: // sidecars keep it
		happens("ends, as its sidecars do", notByItself, model.EndsSidecars(kubelet.ExitTerminated))
		fail("is deleted", true, model.IsDeleted)
		fail("vanishes", true, model.Vanishes)
	case running:
		fail("loses its sidecars", true, model.EndsSidecars(1))
		if index == "0" || s.shape.RestartPolicy != model.Always {
			actions = append(actions, action{name: "pod " + index + " succeeds", do: func(m *machine) {
				// Nobody sees any more that it was restarted.
				m.state.unclear = m.state.unclear || wasRestarted(pod)
				m.happen(pod, model.Exits(0, ""))
				m.succeeds(pod)
			}})
		} else {
			fail("succeeds", true, model.Exits(0, ""))
		}
		fail("fails", false, model.Exits(1, ""))
		fail("is restarted in place", false, model.RestartsInPlace(1))
		fail("loses its attempt", true, model.LosesLabel(batchv1beta1.LabelAttempt))
		fail("loses its kind of job", true, model.LosesLabel(batchv1beta1.LabelJobKind))
		fail("loses its name of a job", true, model.LosesLabel(batchv1beta1.LabelJobName))
		fail("is killed", false, model.Exits(kubelet.ExitKilled, ""))
		fail("is deleted", true, model.IsDeleted)
		fail("vanishes", true, model.Vanishes)
		fail("is preempted", true, model.IsPreempted)
		fail("loses its node", true, model.LosesItsNode)
	case plan.IsHeld(pod): // and has ended
		fail("is deleted", true, model.IsDeleted)
		fail("vanishes", true, model.Vanishes)
	}
	return actions
}

// wasRestarted reports whether the kubelet restarted a container of the pod. What happens to it later need not count.
func wasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.RestartCount > 0
	})
}

// happen lets a mishap happen to a pod.
func (m *machine) happen(pod *corev1.Pod, what model.Mishap) {
	m.must(func(c *model.Cluster) error { return what(c, pod) })
}

// owe notes that the controller has to count a failure, once for all of one attempt if the replicas restart together.
func (m *machine) owe(pod *corev1.Pod, free bool) {
	s := m.state
	job := s.live.Objects.Job()
	if job == nil || job.JobStatus().Decided() {
		return
	}
	if free || model.IsRelabelled(pod) || model.AttemptLabel(pod) != model.AttemptOf(*job.JobStatus(), pod.Name) {
		s.unclear = true
		return
	}
	if s.shape.RunPolicy.RestartScope == model.ScopeJob {
		for _, other := range s.live.Objects.Pods() {
			if model.AttemptLabel(other) == model.AttemptLabel(pod) &&
				(kubelet.HasFailed(other) || wasRestarted(other)) && other.DeletionTimestamp == nil {
				return
			}
		}
	}
	s.counted++
}
