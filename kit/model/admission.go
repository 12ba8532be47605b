package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// Admission is what the admission of a cluster does to a pod that is created.
type Admission func(*corev1.Pod)

// Mesh is admission such as that of a service mesh. It adds a container before those of the pod, one after them and a
// sidecar among the init containers. It takes off a label that the controller does not read.
func Mesh(pod *corev1.Pod) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[kubelet.AnnotationMain] = kubelet.MainContainer(pod)
	pod.Spec.Containers = slices.Concat(
		[]corev1.Container{{Name: "proxy"}}, pod.Spec.Containers, []corev1.Container{{Name: "agent"}},
	)
	network := corev1.Container{Name: "network", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	pod.Spec.InitContainers = slices.Concat([]corev1.Container{network}, pod.Spec.InitContainers)
	delete(pod.Labels, batchv1beta1.LabelReplicaType)
}

// InMesh returns the kind on a cluster whose admission is Mesh.
func (k Kind) InMesh() Kind {
	k.Admission = Mesh
	return k
}

// TakesOff returns admission that takes a label off the pods, besides what other admission does. Nil does nothing.
func (a Admission) TakesOff(label string) Admission {
	return func(pod *corev1.Pod) {
		if a != nil {
			a(pod)
		}
		delete(pod.Labels, label)
	}
}

// SetAdmission changes what the admission of the cluster does from now on.
func (c *Cluster) SetAdmission(admission Admission) { c.admission = admission }
