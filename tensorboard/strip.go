package tensorboard

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/network"
)

// strip removes the parts of an object that the controller does not read, before the object is cached. Anybody can add
// our label to an object, so strip keeps only minimal metadata of objects that no TensorBoard controls.
func (o *Options) strip(object client.Object) {
	switch object := object.(type) {
	case *v1beta1.TensorBoard:
		manager.StripMeta(&object.ObjectMeta, nil, nil)
	case *corev1.Pod:
		stripPod(object)
	case *networkingv1.NetworkPolicy:
		manager.StripOwnedMeta(&object.ObjectMeta, ourKind)
		network.Strip(object, networkPolicySpec(strings.TrimSuffix(object.Name, objectName("")), o))
	case *corev1.Service:
		manager.StripOwnedMeta(&object.ObjectMeta, ourKind)
		object.Spec, object.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	}
}

// ourKind is the kind that this controller reconciles.
var ourKind = v1beta1.GroupVersion.WithKind("TensorBoard").GroupKind()

func stripPod(pod *corev1.Pod) {
	if !manager.HasController(pod, ourKind) {
		manager.StripForeignMeta(&pod.ObjectMeta)
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
		return
	}
	manager.StripMeta(&pod.ObjectMeta, nil, []string{annotationSpecHash})
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName}
	if node := nodeOf(pod); node != "" {
		spec.Affinity = affinityTo(node)
	}
	pod.Spec = spec
	address := pod.Status.PodIP
	manager.StripPodStatus(&pod.Status)
	pod.Status.PodIP = address
}
