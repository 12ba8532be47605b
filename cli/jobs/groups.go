package jobs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// maxGroups is the maximum number of PodGroups to read.
const maxGroups = 2000

// Groups are the PodGroups of the jobs in queues, as far as a user may read them.
type Groups struct {
	Items []schedulerv1beta1.PodGroup
	// OfNamespace reports whether Items has only the PodGroups of one namespace.
	OfNamespace bool
	// IsTruncated reports whether there are more PodGroups than Items has.
	IsTruncated bool
}

// ReadGroups reads the PodGroups of the cluster, or those of a namespace if the user may read only these.
func ReadGroups(ctx context.Context, from client.Reader, namespace string) (Groups, error) {
	var list schedulerv1beta1.PodGroupList
	err := from.List(ctx, &list, client.Limit(maxGroups))
	ofNamespace := apierrors.IsForbidden(err)
	if ofNamespace {
		err = from.List(ctx, &list, client.Limit(maxGroups), client.InNamespace(namespace))
	}
	return Groups{Items: list.Items, OfNamespace: ofNamespace, IsTruncated: list.Continue != ""}, err
}
