// Package admission decides about the objects through which other controllers admit the pods of a job: a PodGroup for a
// Queue, and a Workload for Kueue. Package dependents reads and writes them.
package admission

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// PodGroup is a snapshot of the PodGroup of a job.
type PodGroup view.Snapshot[*schedulerv1beta1.PodGroup]

var _ view.Admission = PodGroup{}

// Request returns how to create or update the PodGroup as the job needs it. Pods wait until the queue has admitted
// the current spec of the PodGroup. The PodGroup is not updated while no replica needs a node, because the number of
// needed pods only matters for scheduling.
func (g PodGroup) Request(job *view.Job, need view.Need) view.Answer {
	waits := view.Answer{Wait: &view.Wait{
		Reason:  batchv1beta1.ReasonQueued,
		Message: fmt.Sprintf("podgroup %s waits for the scheduler-controller", job.Name),
	}}
	want := gang.PodGroupSpec(*job.Spec.T9kScheduler(), job.Spec.Elastic, need.Roles, need.Done)
	switch {
	case g.Unknown:
		waits.RetryAfter = view.CacheDelay
		waits.Wait.Message = fmt.Sprintf("podgroup %s cannot be read yet", job.Name)
		return waits
	case g.Problem != nil:
		return cannotHave(job, g.Problem)
	case g.Object != nil && !view.IsControlledBy(g.Object, job.UID):
		return cannotHave(job, report.NameConflict(view.TheJob, "podgroup "+job.Name, g.Object))
	case g.Object == nil:
		waits.Change = view.Change{
			Action: batchv1beta1.ActionCreate,
			Wanted: &schedulerv1beta1.PodGroup{ObjectMeta: job.MetaOfOwned(), Spec: want},
		}
		return waits
	case g.Object.DeletionTimestamp != nil:
		waits.Wait.Message = fmt.Sprintf("podgroup %s is being deleted and will be recreated", job.Name)
		return waits
	case need.Scheduling && !needsSamePods(g.Object.Spec, want):
		updated := g.Object.DeepCopy()
		updated.Spec.MinMember, updated.Spec.Roles = want.MinMember, want.Roles
		waits.Change = view.Change{Action: batchv1beta1.ActionUpdate, Seen: g.Object, Wanted: updated}
		return waits
	}
	admitted := meta.FindStatusCondition(g.Object.Status.Conditions, schedulerv1beta1.ConditionAdmitted)
	switch {
	case admitted == nil || g.Object.Status.ObservedGeneration < g.Object.Generation:
		return waits
	case admitted.Status != metav1.ConditionTrue:
		return view.Answer{Wait: &view.Wait{
			Reason:    cmp.Or(admitted.Reason, batchv1beta1.ReasonQueued),
			Message:   admitted.Message,
			NeedsHelp: gang.NeedsHelp(admitted.Reason),
		}}
	default:
		return view.Answer{}
	}
}

// cannotHave returns the answer to a job that cannot get its PodGroup or its Workload because of the problem.
func cannotHave(job *view.Job, problem *report.RefusedError) view.Answer {
	return view.Answer{
		Wait:       &view.Wait{Reason: problem.Reason, Message: problem.Error()},
		Problem:    problem,
		RetryAfter: job.DependentRetry,
	}
}

// Standing implements view.Admission. The result never sets Waits, because a job with a PodGroup counts as started
// before its Queue admits it. It never sets Stops, because the admission of a PodGroup is not withdrawn while its pods
// run.
func (g PodGroup) Standing(job types.UID) view.Standing {
	standing := view.Standing{Unknown: g.Unknown}
	if !g.isOwn(job) {
		return standing
	}
	standing.UID, standing.WhyPending = g.Object.UID, g.whyPending
	c := meta.FindStatusCondition(g.Object.Status.Conditions, schedulerv1beta1.ConditionMaxDurationExceeded)
	if c != nil && c.Status == metav1.ConditionTrue {
		standing.Expired, standing.WhyExpired = true, c.Message
	}
	return standing
}

// isOwn reports whether the job with the given UID controls the PodGroup.
func (g PodGroup) isOwn(job types.UID) bool {
	return g.Object != nil && view.IsControlledBy(g.Object, job)
}

// Withdraw returns the deletion of the PodGroup, which releases its resources.
func (g PodGroup) Withdraw(job *view.Job, _ view.Rest) view.Answer {
	switch {
	case g.Unknown:
		return view.Answer{RetryAfter: view.CacheDelay}
	case g.Problem != nil && g.Problem.Reason != batchv1beta1.ReasonNotInstalled:
		return view.Answer{RetryAfter: job.DependentRetry}
	case g.isOwn(job.UID) && g.Object.DeletionTimestamp == nil:
		return view.Answer{Change: view.Change{Action: batchv1beta1.ActionDelete, Seen: g.Object}}
	default:
		return view.Answer{}
	}
}

// Join makes the new pods members of the PodGroup. Up to MinMember pods of a job are in the scheduling group, whose
// pods kube-scheduler schedules together. The other pods of an elastic job are extra: they belong to the PodGroup,
// but not to the scheduling group. The index of a pod does not show whether it is extra, because an elastic job can
// have removed any of its first pods. So Join counts the existing pods of the scheduling group. The leader is never
// extra.
func (g PodGroup) Join(job *view.Job, creates []view.Creation, leader string, present []*corev1.Pod) {
	var members int32
	for _, pod := range present {
		if pod.Spec.SchedulingGroup != nil && pod.DeletionTimestamp == nil {
			members++
		}
	}
	for i := range creates {
		c := &creates[i]
		extra := members >= g.Object.Spec.MinMember && c.Name != leader
		if !extra {
			members++
		}
		member := gang.Member{Role: c.Type, Extra: extra}
		c.Join = func(pod *corev1.Pod) { gang.Decorate(pod, *job.Spec.T9kScheduler(), g.Object, member) }
	}
}

// whyPending returns why a pod without a node is pending. The reason comes from the PodGroup, because the status of a
// pod in a gang does not have it.
func (g PodGroup) whyPending(pod *corev1.Pod) (reason, message string, known bool) {
	if pod.Spec.NodeName != "" {
		return "", "", false
	}
	scheduled := meta.FindStatusCondition(g.Object.Status.Conditions, schedulerv1beta1.ConditionGroupScheduled)
	switch {
	case scheduled == nil:
		return batchv1beta1.ReasonPending, pod.Name + " waits to be scheduled with its gang", true
	case scheduled.Status == metav1.ConditionTrue && isGated(pod):
		message = fmt.Sprintf("%s is not needed by its gang and waits until its queue has room", pod.Name)
		return batchv1beta1.ReasonPending, message, true
	case scheduled.Status == metav1.ConditionTrue:
		return "", "", false
	case gang.NeedsHelp(scheduled.Reason):
		return scheduled.Reason, scheduled.Message, true
	default:
		message = fmt.Sprintf("%s waits to be scheduled with its gang: %s", pod.Name, scheduled.Message)
		return batchv1beta1.ReasonPending, message, true
	}
}

// needsSamePods reports whether two PodGroups need the same pods. It ignores the priority, because administrators can
// change it.
func needsSamePods(a, b schedulerv1beta1.PodGroupSpec) bool {
	return a.MinMember == b.MinMember && equality.Semantic.DeepEqual(a.Roles, b.Roles)
}

// isGated reports whether a pod has scheduling gates. It checks the conditions of the pod, because the cache does not
// have the gates.
func isGated(pod *corev1.Pod) bool {
	return policy.ConditionOf(pod, corev1.PodScheduled).Reason == corev1.PodReasonSchedulingGated
}
