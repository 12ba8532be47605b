package decide

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
)

// buildPod returns the pod of a member, built from its wired template, whose main container is main. Fields that the
// controller sets override those of the template. The pod waits until the awaited names resolve.
func (s *steps) buildPod(
	member framework.Member, awaited []string, current view.Attempt,
	template *corev1.PodTemplateSpec, main *corev1.Container,
) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            member.Name,
			Namespace:       s.Job.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     template.Annotations,
			OwnerReferences: []metav1.OwnerReference{s.Job.Owner()},
		},
		Spec: template.Spec,
	}
	if s.Job.HoldLeaders && member.Rank == 0 {
		pod.Finalizers = []string{batchv1beta1.FinalizerLeader}
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	delete(pod.Labels, batchv1beta1.LabelAdmittedBy)
	dropReserved(pod.Labels)
	dropReserved(pod.Annotations)
	s.avoidNodes(pod)
	maps.Copy(pod.Labels, view.Labels(s.Job.Kind.Kind, s.Job.Name))
	pod.Labels["app.kubernetes.io/component"] = member.Role.Type
	pod.Labels[batchv1beta1.LabelReplicaType] = member.Role.Type
	pod.Labels[batchv1beta1.LabelReplicaIndex] = strconv.Itoa(int(member.Index))
	pod.Labels[batchv1beta1.LabelAttempt] = current.String()

	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Hostname = member.Name
	pod.Spec.Subdomain = s.Job.Name
	if pod.Spec.HostNetwork && pod.Spec.DNSPolicy == "" {
		// With the default DNS policy of Kubernetes, cluster names do not resolve in pods on the host network.
		pod.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}

	if len(pod.Spec.Containers) > 1 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, framework.AnnotationMain, main.Name)
	}
	if main.TerminationMessagePolicy == "" {
		main.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	for i := range pod.Spec.InitContainers {
		if init := &pod.Spec.InitContainers[i]; init.TerminationMessagePolicy == "" {
			init.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}
	}
	if len(awaited) > 0 {
		// Frameworks wait for a peer that does not listen yet, but give up if its name does not resolve.
		if err := s.Peers.AddWait(member, &pod.Spec, *main, awaited); err != nil {
			return nil, err
		}
	}
	return pod, nil
}

// dropReserved removes the labels or annotations that only the controllers and the scheduler may set on the pods of
// jobs. The admission policies of the scheduler-controller trust the job controllers, so a template must not be able to
// add its pods to a PodGroup or to mark them as released by a Queue.
func dropReserved(keys map[string]string) {
	maps.DeleteFunc(keys, func(key, _ string) bool {
		return strings.HasPrefix(key, schedulerv1beta1.GroupVersion.Group+"/")
	})
}
