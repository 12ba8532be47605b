package loop

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the status of an object. The parameter before is the object as it was read. The parameter after
// is the same object with the new status. PatchStatus returns a conflict if somebody has changed the object since it
// was read.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Status().Patch(ctx, after, optimistic(before))
}

// Patch writes an object, but not its status. The parameters before and after, and the error for a conflict, are the
// same as in PatchStatus.
func Patch(ctx context.Context, c client.Client, before, after client.Object, options ...client.PatchOption) error {
	return c.Patch(ctx, after, optimistic(before), options...)
}

// optimistic returns a patch to write a changed copy of an object. The parameter before is the object as it was read.
// The API server rejects the patch with a conflict if the object has changed since it was read.
func optimistic(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
