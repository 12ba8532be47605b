package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/loop"
)

func (r *reconciler) writeGroups(ctx context.Context, groups []groupView, d decision) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, r.writeGroup(ctx, g.Group, d.Groups[g.key()]))
	}
	return errors.Join(errs...)
}

func (r *reconciler) writeGroup(ctx context.Context, group *v1beta1.PodGroup, status v1beta1.PodGroupStatus) error {
	before := group.DeepCopy()
	group.Status = status
	err := loop.PatchStatus(ctx, r.client, before, group)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of podgroup %s/%s: %w", group.Namespace, group.Name, err)
	}
	if err == nil {
		r.writes.note(group.Spec.Queue, &v1beta1.PodGroup{}, before, group)
		logChanges(log.FromContext(ctx).WithValues("podGroup", client.ObjectKeyFromObject(group)), before.Status.Conditions,
			status.Conditions)
	}
	return nil
}

func (r *reconciler) writeQueue(ctx context.Context, queue *v1beta1.Queue, status v1beta1.QueueStatus) error {
	if queue == nil || equality.Semantic.DeepEqual(queue.Status, status) {
		return nil
	}
	before := queue.DeepCopy()
	queue.Status = status
	err := loop.PatchStatus(ctx, r.client, before, queue)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of queue %s: %w", queue.Name, err)
	}
	if err == nil {
		logChanges(log.FromContext(ctx), before.Status.Conditions, status.Conditions)
	}
	return nil
}

// logChanges logs the conditions whose status or reason has changed. It skips SufficientGroupMember, and conditions
// that are False only because pods are missing or are still being scheduled.
func logChanges(logger logr.Logger, before, after []metav1.Condition) {
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		isOnItsWay := c.Status == metav1.ConditionFalse &&
			(c.Reason == v1beta1.ReasonTooFewPods || c.Reason == v1beta1.ReasonScheduling)
		if isOnItsWay || c.Type == v1beta1.ConditionSufficientGroupMember || was != nil && was.Status == c.Status &&
			was.Reason == c.Reason {
			continue
		}
		logger.Info("ConditionChanged", "condition", c.Type, "status", c.Status, "reason", c.Reason)
	}
}
