package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

const (
	// waitContainer is the init container that waits until the names of peers resolve.
	waitContainer = "wait-for-peers"
	// waitTimeout is how long it waits before it lets the replica try by itself.
	waitTimeout = 10 * time.Minute
)

// jobLabels identify what belongs to a job.
func jobLabels(kind, job string) map[string]string {
	return map[string]string{
		batchv1beta1.LabelJobKind:      kind,
		batchv1beta1.LabelJobName:      job,
		"app.kubernetes.io/name":       "training-job",
		"app.kubernetes.io/instance":   job,
		"app.kubernetes.io/managed-by": "tensorstack-jobs",
	}
}

// buildPod makes the pod of a member, which waits until the awaited names resolve, from its template, except for what the framework adds. Where
// the template sets something that the job needs its own way, the job's way wins.
func buildPod(kind string, owner metav1.OwnerReference, gang framework.Gang, member framework.Member, awaited []string,
	current attempt, template *corev1.PodTemplateSpec, mainContainers []string,
) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            member.Name,
			Namespace:       gang.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     template.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, jobLabels(kind, gang.Job))
	pod.Labels["app.kubernetes.io/component"] = member.Role.Type
	pod.Labels[batchv1beta1.LabelReplicaType] = member.Role.Type
	pod.Labels[batchv1beta1.LabelReplicaIndex] = strconv.Itoa(int(member.Index))
	pod.Labels[batchv1beta1.LabelAttempt] = current.String()

	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Hostname = member.Name
	pod.Spec.Subdomain = gang.Job

	main := framework.MainContainer(mainContainers, pod.Spec.Containers)
	if main == nil {
		return nil, fmt.Errorf("the template of type %q has no container", member.Role.Type)
	}
	if main.TerminationMessagePolicy == "" {
		main.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	if len(awaited) > 0 {
		// Frameworks give up on a name that does not resolve, while they wait for a peer that does not listen yet.
		args := slices.Concat([]string{"wait-dns", "--timeout", waitTimeout.String()}, awaited)
		if err := gang.AddHelper(member, &pod.Spec, waitContainer, args); err != nil {
			return nil, err
		}
	}
	return pod, nil
}

// buildService makes the headless Service that gives the members their names. Their addresses are published before they
// are ready, since they need each other to become ready.
func buildService(kind string, owner metav1.OwnerReference, namespace, job string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            job,
			Namespace:       namespace,
			Labels:          jobLabels(kind, job),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 selectorLabels(kind, job),
		},
	}
}

// selectorLabels select the pods of a job.
func selectorLabels(kind, job string) map[string]string {
	return map[string]string{batchv1beta1.LabelJobKind: kind, batchv1beta1.LabelJobName: job}
}
