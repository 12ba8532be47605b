package tensorboard

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/report"
)

// execute carries out a decision. It writes the status once, after all other objects. If that write fails, the next
// reconcile observes the same state and writes the same status.
func (r *reconciler) execute(
	ctx context.Context, tb *v1beta1.TensorBoard, seen observation, d decision,
) (loop.Requeue, error) {
	err := r.ensureObjects(ctx, tb, seen, d)
	now := r.options.Clock.Now()
	if refused, ok := errors.AsType[*report.RefusedError](err); ok {
		d.refuse(tb, refused, now)
	} else if _, ok := errors.AsType[*owned.NotCachedError](err); ok {
		// The object exists, but is not in the cache yet. Its watch event will requeue the TensorBoard earlier, unless
		// somebody removed our label from the object.
		d.RequeueAt = now.Add(refusalDelay)
	} else if err != nil {
		return loop.Requeue{}, err
	}
	err = r.writeStatus(ctx, tb, d.Status)
	if err == nil && d.Suspend {
		err = r.suspend(ctx, tb)
	}
	return loop.Requeue{At: d.RequeueAt}, err
}

// ensureObjects deletes the objects that the TensorBoard does not need, and then creates the missing ones. The order
// ensures that a failed creation does not prevent a deletion.
func (r *reconciler) ensureObjects(
	ctx context.Context, tb *v1beta1.TensorBoard, seen observation, d decision,
) error {
	if err := r.deleteObjects(ctx, seen, d); err != nil {
		return err
	}
	if r.options.NetworkPolicies.Enabled {
		policies := network.Keeper{Client: r.client, APIReader: r.reader}
		if err := policies.Ensure(ctx, tb, theTensorBoard, buildNetworkPolicy(tb, &r.options)); err != nil {
			return err
		}
	}
	if err := r.ensureService(ctx, tb); err != nil {
		return err
	}
	if !d.CreateGroup && !d.Create {
		return nil
	}
	pod, err := buildPod(tb, seen.Wanted, seen.Claims.WantedOn, r.options)
	if err != nil {
		return err // return before the PodGroup is created, because it would hold quota for a pod that cannot exist
	}
	if d.CreateGroup {
		return r.create(ctx, tb, buildGroup(tb), client.DisableReadYourWritesConsistency) // PodGroups are not cached
	}
	if scheduler := t9kScheduler(&tb.Spec); scheduler != nil {
		gang.Decorate(pod, *scheduler, seen.Group.Object, gang.Member{Role: groupRole})
	}
	return r.create(ctx, tb, pod)
}

func (r *reconciler) deleteObjects(ctx context.Context, seen observation, d decision) error {
	if d.Delete {
		options := []client.DeleteOption{client.Preconditions{UID: &seen.Pod.UID}}
		if d.Force {
			options = append(options, client.GracePeriodSeconds(0))
		}
		if err := r.client.Delete(ctx, seen.Pod, options...); client.IgnoreNotFound(err) != nil &&
			!apierrors.IsConflict(err) {
			return fmt.Errorf("deleting pod %s: %w", seen.Pod.Name, err)
		}
	}
	if d.DeleteGroup {
		err := r.client.Delete(ctx, seen.Group.Object, client.Preconditions{UID: &seen.Group.Object.UID},
			client.DisableReadYourWritesConsistency)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting podgroup %s: %w", seen.Group.Object.Name, err)
		}
	}
	return nil
}

func (r *reconciler) ensureService(ctx context.Context, tb *v1beta1.TensorBoard) error {
	var service corev1.Service
	err := r.client.Get(ctx, client.ObjectKey{Namespace: tb.Namespace, Name: objectName(tb.Name)}, &service)
	if err == nil && metav1.IsControlledBy(&service, tb) || client.IgnoreNotFound(err) != nil {
		return err
	}
	return r.create(ctx, tb, buildService(tb))
}

func (r *reconciler) create(
	ctx context.Context, tb *v1beta1.TensorBoard, object client.Object, options ...client.CreateOption,
) error {
	return owned.Create(ctx, r.client, r.reader, tb, theTensorBoard, object, options...)
}

// suspend sets spec.suspend to true. The status with the reason has already been written. If the TensorBoard has
// changed since it was read, suspend returns a conflict error.
func (r *reconciler) suspend(ctx context.Context, tb *v1beta1.TensorBoard) error {
	before := tb.DeepCopy()
	tb.Spec.Suspend = true
	if err := loop.Patch(ctx, r.client, before, tb); err != nil {
		return fmt.Errorf("suspending an idle TensorBoard: %w", err)
	}
	return nil
}
