package controller

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// observePodGroup reads the PodGroup of a job that needs one, live from the API server itself. For other jobs it does nothing.
func (r *Reconciler[J]) observePodGroup(
	ctx context.Context, job J, spec framework.JobSpec, live bool,
) plan.PodGroupView {
	if spec.T9kScheduler() == nil || !job.GetDeletionTimestamp().IsZero() {
		return plan.PodGroupView{}
	}
	var reader client.Reader = r.client
	if r.podGroups != nil {
		// Also before a live look: nobody would tell of a group that is created while they are not watched.
		cached, problem := r.podGroups.reader(ctx, job.GetNamespace())
		if cached == nil {
			return plan.PodGroupView{Unknown: problem == nil, Problem: problem}
		}
		reader = cached
	}
	if live {
		reader = r.apiReader
	}
	group := &schedulerv1beta1.PodGroup{}
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(job), group, client.DisableReadYourWritesConsistency); {
	case err == nil:
		return plan.PodGroupView{Object: group}
	case isNotFoundOrNotInstalled(err):
		return plan.PodGroupView{}
	case owned.IsRefused(err):
		return plan.PodGroupView{Problem: &report.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading podgroup %s: %w", job.GetName(), err),
		}}
	default:
		return plan.PodGroupView{Unknown: true}
	}
}

// podGroupsNotInstalled returns the problem of a job that cannot be scheduled as a gang, since the CRD is missing.
func podGroupsNotInstalled(error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New(
		"the CustomResourceDefinition podgroups.scheduler.tensorstack.dev is not installed, which spec.scheduler.t9kScheduler needs: no replica is created until it is")}
}

// changePodGroup makes the change of a decision. Errors are of type *report.RefusedError, unless retrying may help. A
// conflict means that somebody changed the PodGroup since it was read.
func (r *Reconciler[J]) changePodGroup(ctx context.Context, job J, d plan.PodGroupDecision) error {
	// The client does not wait for the cache to have these writes: it never might, if the kind is removed meanwhile.
	const noWait = client.DisableReadYourWritesConsistency
	switch d.Change {
	case batchv1beta1.ActionCreate:
		err := r.createOwned(ctx, job, &schedulerv1beta1.PodGroup{
			ObjectMeta: r.metaOfOwned(job),
			Spec:       d.Spec,
		}, noWait)
		if isNotFoundOrNotInstalled(err) {
			return podGroupsNotInstalled(err)
		}
		return err
	case batchv1beta1.ActionUpdate:
		changed := d.Object.DeepCopy()
		changed.Spec.MinMember, changed.Spec.Roles = d.Spec.MinMember, d.Spec.Roles
		err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(d.Object, client.MergeFromWithOptimisticLock{}), noWait)
		switch {
		case err == nil || isNotFoundOrNotInstalled(err):
			return nil
		case owned.IsRefused(err):
			return &report.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: fmt.Errorf("changing podgroup %s: %w", job.GetName(), err)}
		default:
			return fmt.Errorf("changing podgroup %s: %w", job.GetName(), err)
		}
	case batchv1beta1.ActionDelete:
		err := r.client.Delete(ctx, d.Object, client.Preconditions{UID: &d.Object.UID}, noWait)
		if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
			return nil // the group of this UID is gone; the next event of the cache has the job reconciled
		}
		return fmt.Errorf("deleting podgroup %s: %w", job.GetName(), err)
	default:
		return nil
	}
}

// podGroups is their kind, as the job controller watches it.
func podGroups() dependentKind[*schedulerv1beta1.PodGroup] {
	return dependentKind[*schedulerv1beta1.PodGroup]{
		object:       &schedulerv1beta1.PodGroup{},
		list:         &schedulerv1beta1.PodGroupList{},
		reported:     func(group *schedulerv1beta1.PodGroup) any { return readStatus(group) },
		strip:        func(group *schedulerv1beta1.PodGroup) { group.Status = readStatus(group) },
		notInstalled: podGroupsNotInstalled,
	}
}

// readStatus returns what the job controller reads of the status of a PodGroup.
func readStatus(group *schedulerv1beta1.PodGroup) schedulerv1beta1.PodGroupStatus {
	status := schedulerv1beta1.PodGroupStatus{
		ObservedGeneration: group.Status.ObservedGeneration, Gated: group.Status.Gated, PriorityClassName: group.Status.PriorityClassName,
	}
	for _, conditionType := range []string{schedulerv1beta1.ConditionAdmitted, schedulerv1beta1.ConditionGroupScheduled} {
		if c := meta.FindStatusCondition(group.Status.Conditions, conditionType); c != nil {
			status.Conditions = append(status.Conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return status
}
