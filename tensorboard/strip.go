package tensorboard

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/network"
)

// strip removes the parts of an object that the controller does not read, before the object is cached. Anybody can add
// our label to an object, so strip keeps only minimal metadata of objects that no TensorBoard controls.
func (o *Options) strip(object client.Object) {
	switch object := object.(type) {
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

// Limits of the memory that tenants can use. Namespaces share largeBoardMemory.
const (
	// maxCachedBoard is the maximum size, in bytes of memory, of a TensorBoard that the cache holds completely. Of a
	// larger TensorBoard, the cache holds only the metadata and the phase, and a reconcile reads the TensorBoard from
	// the API server.
	maxCachedBoard = 32 << 10
	// largeBoardMemory is the maximum memory, in bytes, of all large TensorBoards that are reconciled at the same time.
	largeBoardMemory = 64 << 20
	// costOfLargeBoard is the memory that a reconcile of a large TensorBoard needs, in multiples of the size of the
	// TensorBoard. It has room for the response of the API server, the decoded TensorBoard, two statuses, and a pod with
	// its config.
	costOfLargeBoard = 4
)

// boards describes how the cache holds TensorBoards.
var boards = large.Kind[*v1beta1.TensorBoard]{
	Most:  maxCachedBoard,
	New:   func() *v1beta1.TensorBoard { return &v1beta1.TensorBoard{} },
	Strip: func(tb *v1beta1.TensorBoard) { manager.StripMeta(&tb.ObjectMeta, nil, nil) },
	Keep:  func(into, from *v1beta1.TensorBoard) { into.Status.Phase = from.Status.Phase },
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
	manager.StripPodStatus(&pod.Status, mainContainer)
	pod.Status.PodIP = address
}
