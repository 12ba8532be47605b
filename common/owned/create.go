// Package owned creates the objects that a controller makes for an object of a user, and never touches those of others.
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

// NotCachedError is how the creation of an object fails that the owner has already. The cache lags, or somebody changed
// the labels by which it selects.
type NotCachedError struct {
	// Object that the API server has.
	Object *metav1.PartialObjectMetadata
}

// Error implements error.
func (e *NotCachedError) Error() string {
	return fmt.Sprintf("%s %s is there already, but the cache does not have it yet",
		strings.ToLower(e.Object.Kind), e.Object.Name)
}

// Create creates an object of the owner, which users know as what it is called, such as "the job". An object of the
// name that is not the owner's is never touched. The reader reads from the API server itself. Errors are of type
// *report.RefusedError, unless another attempt can succeed, and *NotCachedError if the owner has the object.
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
		return RefusedOrFailed(what, err)
	}
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(gvk)
	if err := reader.Get(ctx, client.ObjectKeyFromObject(object), existing); err != nil {
		return fmt.Errorf("reading %s, which is in the way: %w", what, err)
	}
	if metav1.IsControlledBy(existing, owner) {
		return &NotCachedError{Object: existing}
	}
	return report.NameConflict(called, what, existing)
}

// RefusedOrFailed returns an error of type *report.RefusedError if the API server rejected the object, so that retrying
// will not help.
func RefusedOrFailed(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case IsRefused(err):
		return &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: fmt.Errorf("creating %s: %w", what, err)}
	default:
		return fmt.Errorf("creating %s: %w", what, err)
	}
}

// IsRefused reports whether the API server rejected a request, and did not fail. An internal error is how it reports an
// admission webhook that does not answer.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInternalError(err)
}
