package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/policy"
)

// podGroupView is what there is of a job's PodGroup.
type podGroupView struct {
	// Object of the job's name, whosever it is; nil if there is none.
	Object *schedulerv1beta1.PodGroup
	// Unknown says that it is not known yet what there is.
	Unknown bool
	// Problem says why it is not known, nil if it is.
	Problem *owned.RefusedError
}

// podGroupDecision is what to do about the PodGroup of a job.
type podGroupDecision struct {
	// Change to make, as DependentStatus.Action names it; empty for none.
	Change string
	// Object to change, as it was seen; nil if it is to be created.
	Object *schedulerv1beta1.PodGroup
	// Spec that it is to have.
	Spec schedulerv1beta1.PodGroupSpec
}

// queued is why pods that are missing are not created yet, as the reason and the message of a condition.
type queued struct{ reason, message string }

// t9kScheduler returns how the replicas are scheduled as one gang, nil if they are not.
func t9kScheduler(spec framework.JobSpec) *batchv1beta1.T9kScheduler {
	if spec.Scheduler == nil {
		return nil
	}
	return spec.Scheduler.T9kScheduler
}

// joinGang lets the pods that are to be created be so only as members of the job's own PodGroup, which its queue admits as it is now. As
// long as that is not seen they are not created; those that are there stay.
func (p *planner) joinGang() {
	scheduler := t9kScheduler(p.job.Spec)
	if scheduler == nil {
		return
	}
	p.provideGroup(*scheduler)
	d := &p.decision
	if p.queued != nil || p.refusal != nil {
		d.Creates = nil
	}
	grouped := p.countGrouped()
	for _, pod := range d.Creates {
		leads := pod.Name == p.replicas[0].member.Name
		extra := grouped >= p.seen.PodGroup.Object.Spec.MinMember && !leads
		if !extra {
			grouped++
		}
		gang.Decorate(pod, *scheduler, p.seen.PodGroup.Object, gang.Member{Role: pod.Labels[batchv1beta1.LabelReplicaType], Extra: extra})
	}
	// A cache may still have the group of an earlier run, admitted, or of a smaller gang; and it does not have the groups of pods.
	d.Irrevocable = d.Irrevocable || len(d.Creates) > 0 || d.PodGroup.Change != ""
}

// countGrouped counts the pods that kube-scheduler knows as members of the gang, and that may yet do their part. It needs as many as the
// PodGroup does, whichever they are: an elastic job may have given up some of those that it had first.
func (p *planner) countGrouped() int32 {
	var grouped int32
	for _, r := range p.replicas {
		if r.pod != nil && r.pod.Spec.SchedulingGroup != nil && r.pod.DeletionTimestamp == nil && !r.obsolete() && !r.hasDonePart() {
			grouped++
		}
	}
	return grouped
}

// provideGroup lets the job have its PodGroup, as it is needed now, and finds out what keeps pods from being created in it.
func (p *planner) provideGroup(scheduler batchv1beta1.T9kScheduler) {
	view, d := p.seen.PodGroup, &p.decision.PodGroup
	want := gang.PodGroupSpec(scheduler, p.job.Spec.Elastic, p.job.Spec.Roles, p.doneByRole())
	switch {
	case view.Unknown:
		p.wakeAt(p.now.Add(cacheDelay))
		p.queue(batchv1beta1.ReasonQueued, "it is not known yet which podgroups there are")
	case view.Problem != nil:
		p.lackGroup(view.Problem)
	case view.Object != nil && !p.controls(view.Object):
		p.lackGroup(owned.NameConflict(theJob, "podgroup "+p.job.Name))
	case view.Object == nil:
		*d = podGroupDecision{Change: batchv1beta1.ActionCreate, Spec: want}
		p.queue(batchv1beta1.ReasonQueued, p.unadmitted())
	case view.Object.DeletionTimestamp != nil:
		p.queue(batchv1beta1.ReasonQueued, fmt.Sprintf("podgroup %s is being deleted, and made anew once it is gone", p.job.Name))
	case p.needsScheduling() && !isSame(view.Object.Spec, want):
		*d = podGroupDecision{Change: batchv1beta1.ActionUpdate, Object: view.Object, Spec: want}
		p.queue(batchv1beta1.ReasonQueued, p.unadmitted())
	default:
		admitted := meta.FindStatusCondition(view.Object.Status.Conditions, schedulerv1beta1.ConditionAdmitted)
		switch {
		case admitted == nil || view.Object.Status.ObservedGeneration < view.Object.Generation:
			p.queue(batchv1beta1.ReasonQueued, p.unadmitted())
		case admitted.Status != metav1.ConditionTrue:
			p.queue(cmp.Or(admitted.Reason, batchv1beta1.ReasonQueued), admitted.Message)
		}
	}
}

// queue says why no pods are created for now.
func (p *planner) queue(reason, message string) { p.queued = &queued{reason, message} }

func (p *planner) unadmitted() string {
	return fmt.Sprintf("podgroup %s waits for the scheduler-controller", p.job.Name)
}

// lackGroup says that the job can have no PodGroup.
func (p *planner) lackGroup(problem *owned.RefusedError) {
	p.wakeAt(p.now.Add(p.job.DependentRetry))
	p.queue(problem.Reason, problem.Error())
	p.refusal = cmp.Or(p.refusal, problem)
}

// releaseGroup gives back what the PodGroup holds, once the job needs no more pods for now, or for ever.
func (p *planner) releaseGroup() {
	view := p.seen.PodGroup
	switch {
	case t9kScheduler(p.job.Spec) == nil:
	case view.Unknown:
		p.wakeAt(p.now.Add(cacheDelay))
	case view.Problem != nil && view.Problem.Reason != batchv1beta1.ReasonNotInstalled:
		p.wakeAt(p.now.Add(p.job.DependentRetry))
	case p.hasGroup() && view.Object.DeletionTimestamp == nil:
		p.decision.PodGroup = podGroupDecision{Change: batchv1beta1.ActionDelete, Object: view.Object}
		if p.job.Status.Finished() || p.job.Status.StartTime == nil {
			p.decision.Irrevocable = true // it was released already, unless the controller was stopped; the cache may not know
		}
	}
}

// hasGroup says that the job has a PodGroup of its own.
func (p *planner) hasGroup() bool {
	return p.seen.PodGroup.Object != nil && p.controls(p.seen.PodGroup.Object)
}

// hasDonePart says that the replica has ended and is not restarted.
func (r *replica) hasDonePart() bool { return r.done || r.succeeded() || r.failure() != nil }

// doneByRole counts the replicas of each type that have ended and are not restarted.
func (p *planner) doneByRole() map[string]int32 {
	done := map[string]int32{}
	for _, r := range p.replicas {
		if r.hasDonePart() {
			done[r.member.Role.Type]++
		}
	}
	return done
}

// needsScheduling says that a replica has no node, or needs another one. While all have theirs it does not matter what the group needs,
// so that peers which end one by one cost no write each.
func (p *planner) needsScheduling() bool {
	return slices.ContainsFunc(p.replicas, func(r *replica) bool {
		return !r.hasDonePart() && (r.pod == nil || r.obsolete() || r.pod.Spec.NodeName == "" && r.outcome.Phase == batchv1beta1.ReplicaPhasePending)
	})
}

// isSame says that a PodGroup needs what it is to need. Its priority is for administrators to change.
func isSame(a, b schedulerv1beta1.PodGroupSpec) bool {
	return a.MinMember == b.MinMember && equality.Semantic.DeepEqual(a.Roles, b.Roles)
}

// whyPending says why a pod does not run yet. What the members of a gang wait for their group knows, and not each of them.
func (p *planner) whyPending(pod *corev1.Pod) (reason, message string) {
	if pod.Spec.NodeName != "" || !p.hasGroup() {
		return policy.WhyPending(pod)
	}
	scheduled := meta.FindStatusCondition(p.seen.PodGroup.Object.Status.Conditions, schedulerv1beta1.ConditionGroupScheduled)
	switch {
	case scheduled == nil:
		return batchv1beta1.ReasonPending, pod.Name + " waits to be scheduled with its gang"
	case scheduled.Status == metav1.ConditionTrue && isGated(pod):
		return batchv1beta1.ReasonPending, fmt.Sprintf("%s, which the gang can do without, waits until its queue has room", pod.Name)
	case scheduled.Status == metav1.ConditionTrue:
		return policy.WhyPending(pod)
	case cannotGoOn(scheduled.Reason):
		return scheduled.Reason, scheduled.Message
	default:
		return batchv1beta1.ReasonPending, fmt.Sprintf("%s waits to be scheduled with its gang: %s", pod.Name, scheduled.Message)
	}
}

// isGated says that a pod is kept from the scheduler for now. The cache has only what is said of it.
func isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated
	})
}

// cannotGoOn says that a PodGroup is not merely on its way.
func cannotGoOn(reason string) bool {
	switch reason {
	case schedulerv1beta1.ReasonUnschedulable, schedulerv1beta1.ReasonQuotaExceeded, schedulerv1beta1.ReasonQueueNotFound,
		schedulerv1beta1.ReasonQueueClosed, schedulerv1beta1.ReasonNamespaceNotSelected, schedulerv1beta1.ReasonEngineNotReady:
		return true
	default:
		return false
	}
}

// announceQueued tells once why the queue does not admit the job, if that is what it waits for.
func (p *planner) announceQueued(reason string) {
	if p.queued == nil || p.queued.reason != reason || !cannotGoOn(reason) {
		return
	}
	if before := meta.FindStatusCondition(p.job.Status.Conditions, batchv1beta1.ConditionRunning); before == nil || before.Reason != reason {
		p.addEvent(corev1.EventTypeWarning, reason, "Queue", p.queued.message)
	}
}

// observePodGroup reads the PodGroup of a job that needs one, live from the API server itself. For other jobs it does nothing.
func (r *Reconciler[J]) observePodGroup(ctx context.Context, job J, live bool) podGroupView {
	if t9kScheduler(r.framework.JobSpec(job)) == nil || !job.GetDeletionTimestamp().IsZero() {
		return podGroupView{}
	}
	var reader client.Reader = r.client
	if r.podGroups != nil {
		// Also before a live look: nobody would tell of a group that is created while they are not watched.
		cached, problem := r.podGroups.reader(ctx, job.GetNamespace())
		if cached == nil {
			return podGroupView{Unknown: problem == nil, Problem: problem}
		}
		reader = cached
	}
	if live {
		reader = r.apiReader
	}
	group := &schedulerv1beta1.PodGroup{}
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(job), group, client.DisableReadYourWritesConsistency); {
	case err == nil:
		return podGroupView{Object: group}
	case isNotFoundOrNotInstalled(err):
		return podGroupView{}
	case owned.IsRefused(err):
		return podGroupView{Problem: &owned.RefusedError{
			Reason: batchv1beta1.ReasonReadFailed, Err: fmt.Errorf("reading podgroup %s: %w", job.GetName(), err),
		}}
	default:
		return podGroupView{Unknown: true}
	}
}

// podGroupsNotInstalled says that no job can be scheduled as a gang.
func podGroupsNotInstalled(error) *owned.RefusedError {
	return &owned.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New(
		"the CustomResourceDefinition podgroups.scheduler.tensorstack.dev is not installed, which spec.scheduler.t9kScheduler needs: no replica is created until it is")}
}

// changePodGroup makes the change of a decision. Errors are of type *owned.RefusedError, unless another try may well succeed; a conflict
// says that somebody changed the PodGroup since it was read.
func (r *Reconciler[J]) changePodGroup(ctx context.Context, job J, d podGroupDecision) error {
	// The client does not wait for the cache to have these writes: it never might, if the kind is removed meanwhile.
	const noWait = client.DisableReadYourWritesConsistency
	switch d.Change {
	case batchv1beta1.ActionCreate:
		err := r.createOwned(ctx, job, &schedulerv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{
				Name:            job.GetName(),
				Namespace:       job.GetNamespace(),
				Labels:          jobLabels(r.gvk.Kind, job.GetName()),
				OwnerReferences: []metav1.OwnerReference{r.ownerOf(job)},
			},
			Spec: d.Spec,
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
			return &owned.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: fmt.Errorf("changing podgroup %s: %w", job.GetName(), err)}
		default:
			return fmt.Errorf("changing podgroup %s: %w", job.GetName(), err)
		}
	case batchv1beta1.ActionDelete:
		err := r.client.Delete(ctx, d.Object, client.Preconditions{UID: &d.Object.UID}, noWait)
		if err == nil || apierrors.IsConflict(err) || isNotFoundOrNotInstalled(err) {
			return nil // the group of this UID is gone, of which the cache will tell
		}
		return fmt.Errorf("deleting podgroup %s: %w", job.GetName(), err)
	default:
		return nil
	}
}

// podGroups is their kind, as the engine watches it.
func podGroups() dependentKind[*schedulerv1beta1.PodGroup] {
	return dependentKind[*schedulerv1beta1.PodGroup]{
		object:       &schedulerv1beta1.PodGroup{},
		list:         &schedulerv1beta1.PodGroupList{},
		reported:     func(group *schedulerv1beta1.PodGroup) any { return readStatus(group) },
		strip:        func(group *schedulerv1beta1.PodGroup) { group.Status = readStatus(group) },
		notInstalled: podGroupsNotInstalled,
	}
}

// readStatus returns what the engine reads of the status of a PodGroup.
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
