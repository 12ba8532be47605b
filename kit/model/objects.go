package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Objects are the objects of a cluster by Key.
type Objects map[string]client.Object

// Key returns the key of an object by its kind and name.
func Key(kind string, name types.NamespacedName) string { return kind + "/" + name.String() }

// Job returns the job, or nil if there is none.
func (o Objects) Job() framework.Job {
	for _, object := range o {
		if job, ok := object.(framework.Job); ok {
			return job
		}
	}
	return nil
}

// Pods returns the pods of the job, sorted by name.
func (o Objects) Pods() []*corev1.Pod {
	return slices.DeleteFunc(ListOf[*corev1.Pod](o), func(p *corev1.Pod) bool { return !owned(p) })
}

// PodGroup returns the PodGroup with the name of the job, or nil if there is none.
func (o Objects) PodGroup() *schedulerv1beta1.PodGroup {
	if groups := ListOf[*schedulerv1beta1.PodGroup](o); len(groups) > 0 {
		return groups[0]
	}
	return nil
}

// Of returns the objects of some resources.
func (o Objects) Of(resources Resources) Objects {
	found := Objects{}
	for key, object := range o {
		if resourceOf(object)&resources != 0 {
			found[key] = object
		}
	}
	return found
}

// with returns a copy of the objects in which the key has the given object. A nil object removes the key.
func (o Objects) with(key string, object client.Object) Objects {
	changed := maps.Clone(o)
	if object == nil {
		delete(changed, key)
	} else {
		changed[key] = object
	}
	return changed
}

// ListOf returns the objects of a type, sorted by Key.
func ListOf[T client.Object](o Objects) []T {
	var found []T
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if object, ok := o[key].(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// Resources is a set of resources.
type Resources uint16

// The resources of a cluster.
const (
	Jobs Resources = 1 << iota
	Pods
	Services
	PodGroups
	TensorBoards
	NetworkPolicies
	Workloads
	// Secrets are written by the controller but never read.
	Secrets
	// ResourceQuotas are read live, and never written by the controller.
	ResourceQuotas
)

// String returns the kinds of the resources.
func (r Resources) String() string {
	var kinds []string
	for resource := Jobs; resource <= ResourceQuotas; resource <<= 1 {
		if r&resource != 0 {
			kinds = append(kinds, cmp.Or(kindNames[resource], "Job"))
		}
	}
	return strings.Join(kinds, ", ")
}

// Cached are the resources that the controller reads from its cache.
const Cached = Jobs | Pods | Services | PodGroups | TensorBoards | NetworkPolicies | Workloads

// All contains all resources.
const All = Cached | Secrets | ResourceQuotas

func resourceOf(object client.Object) Resources {
	switch object := object.(type) {
	case *corev1.Pod:
		return Pods
	case *corev1.Service:
		return Services
	case *schedulerv1beta1.PodGroup:
		return PodGroups
	case *tensorboardv1beta1.TensorBoard:
		return TensorBoards
	case *networkingv1.NetworkPolicy:
		return NetworkPolicies
	case *kueuev1beta2.Workload:
		return Workloads
	case *corev1.Secret:
		return Secrets
	case *corev1.ResourceQuota:
		return ResourceQuotas
	case *metav1.PartialObjectMetadata:
		return resourceOfKind(object.Kind)
	default:
		return Jobs
	}
}

func resourceOfKind(kind string) Resources {
	for resource, name := range kindNames {
		if name == kind {
			return resource
		}
	}
	return Jobs
}

// kindNames maps each resource except Jobs to the kind of its objects.
var kindNames = map[Resources]string{
	Pods: "Pod", Services: "Service", PodGroups: "PodGroup", TensorBoards: "TensorBoard",
	NetworkPolicies: "NetworkPolicy", Workloads: "Workload", Secrets: "Secret", ResourceQuotas: "ResourceQuota",
}

// kindOf returns the kind of an object.
func kindOf(scheme *runtime.Scheme, object runtime.Object) string {
	if object, ok := object.(client.Object); ok {
		if name, ok := kindNames[resourceOf(object)]; ok {
			return name
		}
	}
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		panic(err) // a test uses an object of a kind that is not in the scheme
	}
	return gvk.Kind
}
