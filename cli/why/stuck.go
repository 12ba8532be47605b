package why

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// stuck is a pod that does not run.
type stuck struct {
	pod *corev1.Pod
	// reason is the reason that the controller reports for a job with such a pod, such as ImagePull. The field word is
	// the reason that the kubelet or the scheduler reports, such as ImagePullBackOff.
	reason, word string
	// container is the name of the waiting container that has the reason in word, and image is its image. Both are empty
	// if there is no such container, for example if the pod has no node.
	container, image string
	// message is the message of the scheduler or the kubelet.
	message string
	// others is how many other pods wait for the same reason.
	others int
}

// findStuck returns a pod that keeps the job from running, preferably a pod that cannot start without help. Nil means
// that there is none.
func (v view) findStuck() *stuck {
	var found *stuck
	for i := range v.Pods {
		pod := &v.Pods[i]
		isDone := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if isDone || pod.DeletionTimestamp != nil || v.hasStarted(pod) {
			continue
		}
		s := stuckOf(pod)
		switch {
		case found == nil || found.reason == batchv1beta1.ReasonPending && s.reason != batchv1beta1.ReasonPending:
			found = s
		case found.reason == s.reason:
			found.others++
		}
	}
	return found
}

// stuckOf returns the description of a pod that does not run.
func stuckOf(pod *corev1.Pod) *stuck {
	reason, _ := policy.WhyPending(pod)
	s := &stuck{pod: pod, reason: reason}
	if reason == batchv1beta1.ReasonUnschedulable {
		c := policy.ConditionOf(pod, corev1.PodScheduled)
		s.word, s.message = c.Reason, c.Message
		return s
	}
	blocked, _ := policy.Blocked(pod)
	if waiting := blocked.State.Waiting; waiting != nil {
		s.container, s.word, s.message = blocked.Name, waiting.Reason, waiting.Message
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == s.container {
			s.image = c.Image
		}
	}
	return s
}

// hasStarted reports whether the main container of a pod runs or has ended.
func (v view) hasStarted(pod *corev1.Pod) bool {
	main := framework.MainContainer(v.Job.Kind.MainContainers, pod.Spec.Containers)
	return main != nil && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == main.Name && s.State.Waiting == nil && (s.State.Running != nil || s.State.Terminated != nil)
	})
}
