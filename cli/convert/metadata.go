package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// typeOf returns the type metadata of a job kind.
func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: pytorchv1beta1.GroupVersion.String(), Kind: kind} // all job kinds have this group
}

// metadataOf returns the metadata of the result. It remarks on the fields of the manifest that the result leaves out.
func (c *conversion) metadataOf(from metav1.ObjectMeta, status any) metav1.ObjectMeta {
	for _, field := range []string{"apiVersion", "kind", "metadata", "spec"} {
		c.move(field, field)
	}
	c.bookkeeping(from, status)
	c.notMappedIfSet("metadata.finalizers", from.Finalizers, "metadata",
		"Only a controller of the old object removes them.")
	c.notMappedIfSet("metadata.ownerReferences", from.OwnerReferences, "metadata",
		"The owner of the old object does not own the new one.")
	annotations := maps.Clone(from.Annotations)
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		c.notMapped("metadata.annotations["+corev1.LastAppliedConfigAnnotation+"]", "", "metadata",
			"kubectl apply writes it, with the content of the old object.")
	}
	return metav1.ObjectMeta{
		Name: from.Name, GenerateName: from.GenerateName, Namespace: from.Namespace,
		Labels: from.Labels, Annotations: annotations,
	}
}

// bookkeeping adds a remark on the fields that only the API server and the controllers write. The result lacks them.
func (c *conversion) bookkeeping(from metav1.ObjectMeta, status any) {
	isSet := map[string]bool{
		"metadata.uid":                        from.UID != "",
		"metadata.resourceVersion":            from.ResourceVersion != "",
		"metadata.generation":                 from.Generation != 0,
		"metadata.selfLink":                   from.SelfLink != "", //nolint:staticcheck // old clusters set it
		"metadata.creationTimestamp":          !from.CreationTimestamp.IsZero(),
		"metadata.deletionTimestamp":          from.DeletionTimestamp != nil,
		"metadata.deletionGracePeriodSeconds": from.DeletionGracePeriodSeconds != nil,
		"metadata.managedFields":              len(from.ManagedFields) > 0,
		"status":                              status != nil,
	}
	maps.DeleteFunc(isSet, func(_ string, set bool) bool { return !set })
	if len(isSet) > 0 {
		c.notMapped(strings.Join(slices.Sorted(maps.Keys(isSet)), ", "), "", "metadata",
			"The API server and the controllers set these fields.")
	}
}
