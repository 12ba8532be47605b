// Package owned creates the objects that a controller makes for an object of a user, and never touches those of others.
package owned

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// RefusedError is the error of an object that could not be had, which another try does not mend by itself.
type RefusedError struct {
	// Reason that the owner's condition gets, such as NameConflict or CreateFailed.
	Reason string
	// Err says what is wrong.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *RefusedError) Unwrap() error { return e.Err }

// ErrNotCached is how the creation fails of what the owner has already.
var ErrNotCached = errors.New("is there already, but the cache does not have it yet")

// Create creates an object of the owner, which users know as what it is called, such as "the job". An object of the name that is not the
// owner's is never touched. The reader reads from the API server itself. Errors are of type *RefusedError, unless another try may
// well succeed.
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
		return fmt.Errorf("%s %w", what, ErrNotCached)
	}
	return NameConflict(called, what)
}

// NameConflict is the error of an owner, known to users as what it is called, that needs an object whose name is taken.
func NameConflict(called, what string) *RefusedError {
	return &RefusedError{batchv1beta1.ReasonNameConflict, fmt.Errorf(
		"%[1]s needs %[2]s, but one exists that is not %[1]s's: delete it or rename %[1]s", called, what)}
}

// RefusedOrFailed tells the errors of a creation apart: of type *RefusedError is what another try does not mend by itself.
func RefusedOrFailed(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case IsRefused(err):
		return &RefusedError{batchv1beta1.ReasonCreateFailed, fmt.Errorf("creating %s: %w", what, err)}
	default:
		return fmt.Errorf("creating %s: %w", what, err)
	}
}

// IsRefused says that the API server did not fail but refused. An internal error is how it reports an admission webhook that does not
// answer.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}
