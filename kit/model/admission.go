package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
)

// Admission changes a pod as it is created, as a mutating webhook does.
type Admission func(*corev1.Pod)

// Mesh is an Admission like the injection webhook of a service mesh. It adds one container before the containers of
// the pod, one after them, and a sidecar before the init containers. It removes a label that the controller does not
// read.
func Mesh(pod *corev1.Pod) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[framework.AnnotationMain] = kubelet.MainContainer(pod)
	pod.Spec.Containers = slices.Concat(
		[]corev1.Container{{Name: "proxy"}}, pod.Spec.Containers, []corev1.Container{{Name: "agent"}},
	)
	network := corev1.Container{Name: "network", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	pod.Spec.InitContainers = slices.Concat([]corev1.Container{network}, pod.Spec.InitContainers)
	delete(pod.Labels, batchv1beta1.LabelReplicaType)
}

// InMesh returns the kind for a cluster whose admission is Mesh.
func (k Kind) InMesh() Kind {
	k.Admission = Mesh
	return k
}

// TakesOff returns an Admission that first makes the changes of the receiver, unless that is nil, and then removes a
// label from the pod.
func (a Admission) TakesOff(label string) Admission {
	return func(pod *corev1.Pod) {
		if a != nil {
			a(pod)
		}
		delete(pod.Labels, label)
	}
}

// SetAdmission replaces the admission of the cluster.
func (c *Cluster) SetAdmission(admission Admission) { c.admission = admission }
