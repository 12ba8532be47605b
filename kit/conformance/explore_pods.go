package conformance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// podActions returns what may befall a pod.
func (x options) podActions(s *state, pod *corev1.Pod) []action {
	var actions []action
	index := pod.Labels[batchv1beta1.LabelReplicaIndex]
	befall := func(name string, quiet int, what func(*corev1.Pod, time.Time)) {
		actions = append(actions, action{name: "pod " + index + " " + name, quiet: quiet, do: func(m *machine) { m.change(pod, what) }})
	}
	fail := func(name string, free bool, what func(*machine)) {
		if !x.left(s, s.spent.failures, x.budget.failures) || !slices.Contains(x.failures, name) {
			return
		}
		actions = append(actions, action{name: "pod " + index + " " + name, do: func(m *machine) {
			m.state.spent.failures++
			m.owe(pod, free)
			what(m)
		}})
	}
	remove := func(options client.DeleteOptions) func(*machine) { return func(m *machine) { m.remove(pod, options) } }
	vanish := remove(client.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	running := pod.Status.Phase == corev1.PodRunning
	switch {
	case isHeldByLostNode(pod):
	case pod.DeletionTimestamp != nil && running:
		// One program saves its work and exits with 0, the next does not know the signal.
		code := kubelet.ExitTerminated
		if index == "0" {
			code = 0
		}
		befall("ends, as it is deleted", clusterWorks, func(p *corev1.Pod, at time.Time) { kubelet.Exit(p, code, "", at) })
	case pod.DeletionTimestamp != nil:
		actions = append(actions, action{name: "pod " + index + " is let go", quiet: clusterWorks, do: vanish})
	case pod.Status.Phase == corev1.PodPending:
		befall("runs", clusterWorks, func(p *corev1.Pod, at time.Time) { kubelet.Run(p, "node-of-"+p.Name, at) })
		fail("vanishes", true, vanish)
	case running:
		befallWith := func(what func(*corev1.Pod, time.Time), then ...func(*machine)) func(*machine) {
			return func(m *machine) {
				m.change(pod, what)
				for _, do := range then {
					do(m)
				}
			}
		}
		exit := func(code int32) func(*corev1.Pod, time.Time) {
			return func(p *corev1.Pod, at time.Time) { kubelet.Exit(p, code, "", at) }
		}
		if index == "0" || s.shape.RestartPolicy != always {
			befall("succeeds", notByItself, exit(0))
		} else {
			fail("succeeds", true, befallWith(exit(0)))
		}
		fail("fails", false, befallWith(exit(1)))
		fail("is killed", false, befallWith(exit(kubelet.ExitKilled)))
		fail("is deleted", true, remove(client.DeleteOptions{}))
		fail("vanishes", true, vanish)
		fail("is preempted", true, befallWith(kubelet.Preempt, remove(client.DeleteOptions{})))
		fail("loses its node", true, befallWith(kubelet.LoseNode, remove(client.DeleteOptions{})))
	}
	return actions
}

func isOnLostNode(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByTaintManager"
	})
}

// isHeldByLostNode says that an object is a pod which is to go, and whose node does not answer.
func isHeldByLostNode(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.DeletionTimestamp != nil && isOnLostNode(pod)
}

// owe notes that the controller has to count a failure, once for all of one attempt if the replicas restart together.
func (m *machine) owe(pod *corev1.Pod, free bool) {
	s := m.state
	job := s.live.job()
	if job == nil || job.JobStatus().Finished() {
		return
	}
	if free || attemptLabel(pod) != attemptOf(*job.JobStatus(), pod.Name) {
		s.unclear = true
		return
	}
	if s.shape.RunPolicy.RestartScope == scopeJob {
		for _, other := range s.live.pods() {
			if attemptLabel(other) == attemptLabel(pod) && other.Status.Phase == corev1.PodFailed && other.DeletionTimestamp == nil {
				return
			}
		}
	}
	s.counted++
}

func (m *machine) change(pod *corev1.Pod, what func(*corev1.Pod, time.Time)) {
	m.must(func(c *Cluster) error {
		c.Change(c.live()[c.keyOf(pod)].(*corev1.Pod), func(p *corev1.Pod) { what(p, m.state.now) }) //nolint:forcetypeassert // a pod has the key of one
		return nil
	})
}
