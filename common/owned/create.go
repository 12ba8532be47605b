// Package owned creates the objects that a controller needs for an object of a user. It never changes objects of other
// owners.
package owned

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// NotCachedError is returned if an object cannot be created because the owner already has it. The cache lacks the
// object because the cache is stale, or because somebody changed the labels by which the cache selects objects.
type NotCachedError struct {
	// Object is the metadata of the object, as read from the API server.
	Object *metav1.PartialObjectMetadata
}

// Error implements error.
func (e *NotCachedError) Error() string {
	return fmt.Sprintf("%s %s already exists, but is not in the cache",
		strings.ToLower(e.Object.Kind), e.Object.Name)
}

// Create creates an object of an owner. It never changes an existing object of the same name. The argument called is
// the name of the owner in messages, for example "the job". The reader must read from the API server, not from a
// cache. The error is a *NotCachedError if the owner already has the object. Any other error is a
// *report.RefusedError, unless a retry can succeed.
func Create(
	ctx context.Context, c client.Client, reader client.Reader, owner client.Object, called string, object client.Object,
	options ...client.CreateOption,
) error {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s %s", strings.ToLower(gvk.Kind), object.GetName())
	err = c.Create(ctx, object, options...)
	if !apierrors.IsAlreadyExists(err) {
		return RefusedOrFailed(batchv1beta1.ReasonCreateFailed, "creating "+what, err)
	}
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(gvk)
	if err := reader.Get(ctx, client.ObjectKeyFromObject(object), existing); err != nil {
		return fmt.Errorf("reading %s, which already exists: %w", what, err)
	}
	if metav1.IsControlledBy(existing, owner) {
		return &NotCachedError{Object: existing}
	}
	return report.NameConflict(called, what, existing)
}

// RefusedOrFailed wraps the error of a request with a description, such as "creating pod job-worker-0". The result is
// a *report.RefusedError with the given reason if the API server rejected the request and a retry will not help.
func RefusedOrFailed(reason, doing string, err error) error {
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%s: %w", doing, err)
	if IsRefused(err) {
		return &report.RefusedError{Reason: reason, Err: failed}
	}
	return failed
}

// IsRefused reports whether the API server rejected a request. Other errors are failures, such as a timeout. Internal
// errors count as rejections, because the API server returns them if an admission webhook does not answer.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInternalError(err)
}
