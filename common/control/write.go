package control

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConflictDelay is how long a controller waits for its cache after a conflict, before it reconciles the object again.
// There might be no event of the change that caused the conflict.
const ConflictDelay = 100 * time.Millisecond

// PatchStatus writes the status of an object. before is the object as it was read, and after is the same object with
// the new status. It returns a conflict if somebody has changed the object since it was read.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Status().Patch(ctx, after, optimistic(before))
}

// Patch writes an object without its status, like PatchStatus.
func Patch(ctx context.Context, c client.Client, before, after client.Object, options ...client.PatchOption) error {
	return c.Patch(ctx, after, optimistic(before), options...)
}

// optimistic returns the patch that changes an object as it was read into another one, unless it has changed since.
func optimistic(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
