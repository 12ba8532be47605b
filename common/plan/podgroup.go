package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// queued is why missing pods are not created yet, as the reason and the message of a condition.
type queued struct{ reason, message string }

// joinGang makes the pods to create members of the job's own PodGroup. It drops them until the queue has admitted the
// group as it is now. Pods that exist stay.
func (s *steps) joinGang() {
	scheduler := s.job.Spec.T9kScheduler()
	if scheduler == nil {
		return
	}
	s.provideGroup(*scheduler)
	if s.queued != nil || s.refusal != nil {
		s.Creates = nil
	}
	grouped := s.countGrouped()
	for _, pod := range s.Creates {
		leads := pod.Name == s.replicas[0].member.Name
		extra := grouped >= s.seen.PodGroup.Object.Spec.MinMember && !leads
		if !extra {
			grouped++
		}
		member := gang.Member{Role: pod.Labels[batchv1beta1.LabelReplicaType], Extra: extra}
		gang.Decorate(pod, *scheduler, s.seen.PodGroup.Object, member)
	}
}

// countGrouped counts the pods that kube-scheduler knows as members of the gang and that have not ended. It needs as
// many of them as the PodGroup does. An elastic job may have given up some of its first pods.
func (s *steps) countGrouped() int32 {
	var grouped int32
	for _, r := range s.replicas {
		isMember := r.pod != nil && r.pod.Spec.SchedulingGroup != nil && r.pod.DeletionTimestamp == nil
		if isMember && !r.obsolete() && !r.hasDonePart() {
			grouped++
		}
	}
	return grouped
}

// provideGroup creates or changes the PodGroup so that it is as the job needs it now, and determines what keeps pods
// from being created in it.
func (s *steps) provideGroup(scheduler batchv1beta1.T9kScheduler) {
	view, d := s.seen.PodGroup, &s.PodGroup
	want := gang.PodGroupSpec(scheduler, s.job.Spec.Elastic, s.roles, s.doneByRole())
	switch {
	case view.Unknown:
		s.wakeAt(s.now.Add(CacheDelay))
		s.queue(batchv1beta1.ReasonQueued, "it is not known yet which podgroups there are")
	case view.Problem != nil:
		s.lackGroup(view.Problem)
	case view.Object != nil && !s.controls(view.Object):
		s.lackGroup(report.NameConflict(TheJob, "podgroup "+s.job.Name))
	case view.Object == nil:
		*d = PodGroupDecision{Change: batchv1beta1.ActionCreate, Spec: want}
		s.queue(batchv1beta1.ReasonQueued, s.unadmitted())
	case view.Object.DeletionTimestamp != nil:
		s.queue(batchv1beta1.ReasonQueued,
			fmt.Sprintf("podgroup %s is being deleted, and made anew once it is gone", s.job.Name))
	case s.needsScheduling() && !needsSamePods(view.Object.Spec, want):
		*d = PodGroupDecision{Change: batchv1beta1.ActionUpdate, Object: view.Object, Spec: want}
		s.queue(batchv1beta1.ReasonQueued, s.unadmitted())
	default:
		admitted := meta.FindStatusCondition(view.Object.Status.Conditions, schedulerv1beta1.ConditionAdmitted)
		switch {
		case admitted == nil || view.Object.Status.ObservedGeneration < view.Object.Generation:
			s.queue(batchv1beta1.ReasonQueued, s.unadmitted())
		case admitted.Status != metav1.ConditionTrue:
			s.queue(cmp.Or(admitted.Reason, batchv1beta1.ReasonQueued), admitted.Message)
		}
	}
}

// queue records why no pods are created for now.
func (s *steps) queue(reason, message string) { s.queued = &queued{reason, message} }

func (s *steps) unadmitted() string {
	return fmt.Sprintf("podgroup %s waits for the scheduler-controller", s.job.Name)
}

// lackGroup records that the job can have no PodGroup.
func (s *steps) lackGroup(problem *report.RefusedError) {
	s.wakeAt(s.now.Add(s.job.DependentRetry))
	s.queue(problem.Reason, problem.Error())
	s.refusal = cmp.Or(s.refusal, problem)
}

// releaseGroup deletes the PodGroup, which releases its resources, once the job needs no more pods.
func (s *steps) releaseGroup() {
	view := s.seen.PodGroup
	switch {
	case s.job.Spec.T9kScheduler() == nil:
	case view.Unknown:
		s.wakeAt(s.now.Add(CacheDelay))
	case view.Problem != nil && view.Problem.Reason != batchv1beta1.ReasonNotInstalled:
		s.wakeAt(s.now.Add(s.job.DependentRetry))
	case s.hasGroup() && view.Object.DeletionTimestamp == nil:
		s.PodGroup = PodGroupDecision{Change: batchv1beta1.ActionDelete, Object: view.Object}
	}
}

// hasGroup reports whether the job has a PodGroup of its own.
func (s *steps) hasGroup() bool {
	return s.seen.PodGroup.Object != nil && s.controls(s.seen.PodGroup.Object)
}

// doneByRole counts the replicas of each type that have ended and are not restarted.
func (s *steps) doneByRole() map[string]int32 {
	done := map[string]int32{}
	for _, r := range s.replicas {
		if r.hasDonePart() {
			done[r.member.Role.Type]++
		}
	}
	return done
}

// needsScheduling reports whether a replica has no node, or needs another one. While all replicas have nodes it does
// not matter how many pods the group needs. So the group is not changed for each peer that ends.
func (s *steps) needsScheduling() bool {
	return slices.ContainsFunc(s.replicas, func(r *replica) bool {
		hasNode := r.pod != nil && !r.obsolete() &&
			(r.pod.Spec.NodeName != "" || r.outcome.Phase != batchv1beta1.ReplicaPhasePending)
		return !r.hasDonePart() && !hasNode
	})
}

// needsSamePods reports whether two PodGroups need the same pods. Their priority is for administrators to change.
func needsSamePods(a, b schedulerv1beta1.PodGroupSpec) bool {
	return a.MinMember == b.MinMember && equality.Semantic.DeepEqual(a.Roles, b.Roles)
}

// whyPending returns why a pod does not run yet. The PodGroup knows what the members of a gang wait for; the pods do
// not.
func (s *steps) whyPending(pod *corev1.Pod) (reason, message string) {
	if pod.Spec.NodeName != "" || !s.hasGroup() {
		return policy.WhyPending(pod)
	}
	conditions := s.seen.PodGroup.Object.Status.Conditions
	scheduled := meta.FindStatusCondition(conditions, schedulerv1beta1.ConditionGroupScheduled)
	switch {
	case scheduled == nil:
		return batchv1beta1.ReasonPending, pod.Name + " waits to be scheduled with its gang"
	case scheduled.Status == metav1.ConditionTrue && isGated(pod):
		return batchv1beta1.ReasonPending,
			fmt.Sprintf("%s, which the gang can do without, waits until its queue has room", pod.Name)
	case scheduled.Status == metav1.ConditionTrue:
		return policy.WhyPending(pod)
	case cannotGoOn(scheduled.Reason):
		return scheduled.Reason, scheduled.Message
	default:
		return batchv1beta1.ReasonPending,
			fmt.Sprintf("%s waits to be scheduled with its gang: %s", pod.Name, scheduled.Message)
	}
}

// isGated reports whether a pod is kept from the scheduler for now. The cache has the conditions of the pod, and not
// its gates.
func isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated
	})
}

// cannotGoOn reports whether a PodGroup that waits for the reason needs help.
func cannotGoOn(reason string) bool {
	switch reason {
	case schedulerv1beta1.ReasonUnschedulable, schedulerv1beta1.ReasonQuotaExceeded, schedulerv1beta1.ReasonQueueNotFound,
		schedulerv1beta1.ReasonQueueClosed, schedulerv1beta1.ReasonNamespaceNotSelected,
		schedulerv1beta1.ReasonEngineNotReady:
		return true
	default:
		return false
	}
}

// announceQueued emits an event, once, if the job waits because its queue does not admit it.
func (s *steps) announceQueued(reason string) {
	if s.queued == nil || s.queued.reason != reason || !cannotGoOn(reason) {
		return
	}
	before := meta.FindStatusCondition(s.job.Status.Conditions, batchv1beta1.ConditionRunning)
	if before == nil || before.Reason != reason {
		s.announcesQueue = true
		s.addEvent(corev1.EventTypeWarning, reason, "Queue", s.queued.message)
	}
}
