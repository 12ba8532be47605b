package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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

// buildPod makes the pod of a member, which waits for the awaited ones, from its template, except for what the framework adds. Where
// the template sets something that the job needs its own way, the job's way wins.
func buildPod(kind string, owner metav1.OwnerReference, gang framework.Gang, member framework.Member, awaited []framework.Member,
	current attempt, template *corev1.PodTemplateSpec, mainContainers []string, waitImage string,
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
		if err := canWait(member.Role.Type, pod.Spec); err != nil {
			return nil, err
		}
		wait := waitForPeers(gang, awaited, waitImage)
		if pod.Spec.Resources != nil {
			wait.Resources = corev1.ResourceRequirements{} // the pod's are for all, and might be less
		}
		pod.Spec.InitContainers = slices.Insert(slices.Clone(pod.Spec.InitContainers), 0, wait)
	}
	return pod, nil
}

// canWait returns an error if the container that waits for peers cannot be one of the pod's.
func canWait(roleType string, spec corev1.PodSpec) error {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == waitContainer {
			return fmt.Errorf("the template of type %q has a container named %q, which is reserved", roleType, waitContainer)
		}
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return fmt.Errorf("the template of type %q is for Windows, but the container %q of its pods is for Linux", roleType, waitContainer)
	}
	return nil
}

// waitForPeers returns the init container that holds a replica back until the names of peers resolve: frameworks give up
// on a name that does not resolve, while they wait for a peer that does not listen yet. It meets the restricted Pod
// Security standard. It asks for little, with limits, so that a pod whose containers all have limits stays Guaranteed.
func waitForPeers(gang framework.Gang, awaited []framework.Member, image string) corev1.Container {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	args := []string{"wait-dns", "--timeout", waitTimeout.String()}
	for _, peer := range awaited {
		args = append(args, gang.FQDN(peer))
	}
	return corev1.Container{
		Name:      waitContainer,
		Image:     image,
		Args:      args,
		Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot:             new(true),
			RunAsUser:                ptr.To[int64](65532),
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
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
