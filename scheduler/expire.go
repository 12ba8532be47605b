package scheduler

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// groupOfJobs is the API group of the kinds of jobs.
const groupOfJobs = "batch.tensorstack.dev"

// endDelay is how long the job controller can take to end the job after the group has the condition
// MaxDurationExceeded. After that, the scheduler-controller deletes the pods itself, because the job controller can
// be an earlier version, which ignores the condition.
const endDelay = 30 * time.Second

// maxDuration returns how long groups of the queue can be on nodes. Nil means no limit.
func (view queueView) maxDuration() *v1beta1.Duration {
	if view.Queue == nil {
		return nil
	}
	return view.Queue.Spec.MaxDuration
}

// isOfJob reports whether a job controls the group. Groups of other owners, such as TensorBoards, do not get the
// condition MaxDurationExceeded, because only the controllers of jobs act on it.
func (g groupView) isOfJob() bool {
	owner := metav1.GetControllerOf(g.Group)
	return owner != nil && strings.HasPrefix(owner.APIVersion, groupOfJobs+"/")
}

// scheduledTime returns when the group was scheduled for the first time. If the status does not have this time yet,
// the result is the time when the first pod was bound. The pod can have been bound before the group was created, so a
// tenant gains no time by deleting the group and creating it again. If the status has no time, the result is nil if
// the group is not scheduled or the queue has no maxDuration.
func (g groupView) scheduledTime(scheduled metav1.Condition, most *v1beta1.Duration, now time.Time) *metav1.Time {
	if most == nil || g.Group.Status.ScheduledTime != nil || scheduled.Status != metav1.ConditionTrue {
		return g.Group.Status.ScheduledTime
	}
	first := metav1.NewTime(now)
	for _, pod := range g.Pods {
		c := policy.ConditionOf(pod, corev1.PodScheduled)
		if c.Status == corev1.ConditionTrue && c.LastTransitionTime.Before(&first) {
			first = c.LastTransitionTime
		}
	}
	return &first
}

// exceeded returns the condition MaxDurationExceeded if it is True. Otherwise it returns nil.
func (g groupView) exceeded(scheduled *metav1.Time, most *v1beta1.Duration, now time.Time) *metav1.Condition {
	if most == nil || scheduled == nil || !g.isOfJob() || now.Before(scheduled.Add(most.Length())) {
		return nil
	}
	return &metav1.Condition{
		Type: v1beta1.ConditionMaxDurationExceeded, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonMaxDurationExceeded,
		Message: fmt.Sprintf("the group was on nodes for longer than spec.maxDuration (%s) of Queue %q",
			*most, g.Group.Spec.Queue),
	}
}

// expire adds to d.Expired the pods that must be deleted because they exceed maxDuration of the queue. It requeues
// the queue at the time when the next pods will exceed maxDuration.
func (d *decision) expire(view queueView, now time.Time) {
	most := view.maxDuration()
	if most == nil {
		return
	}
	d.expirePods(view.Orphans, most.Length(), now)
	for _, g := range view.selected() {
		if !g.isOfJob() {
			d.expirePods(g.Pods, most.Length(), now)
		} else if scheduled := d.Groups[g.key()].ScheduledTime; scheduled != nil {
			d.expireGroup(g, scheduled.Add(most.Length()), now)
		}
	}
}

// expirePods adds active pods to d.Expired if they are at least as old as the given length. It requeues the queue at
// the time when the next pod reaches that age.
func (d *decision) expirePods(pods []*corev1.Pod, length time.Duration, now time.Time) {
	for _, pod := range pods {
		switch left := pod.CreationTimestamp.Add(length).Sub(now); {
		case isDone(pod) || !pod.DeletionTimestamp.IsZero():
		case left <= 0:
			d.Expired = append(d.Expired, pod)
		default:
			d.requeueAt(now.Add(left))
		}
	}
}

// expireGroup adds the active pods of a job to d.Expired if they still exist after endDelay. The parameter end is the
// time when the group exceeds maxDuration. Then the group gets the condition MaxDurationExceeded, and endDelay
// begins, because the job controller ends the job when it reads this condition.
func (d *decision) expireGroup(g groupView, end, now time.Time) {
	recorded := meta.FindStatusCondition(g.Group.Status.Conditions, v1beta1.ConditionMaxDurationExceeded)
	switch {
	case now.Before(end):
		d.requeueAt(end)
	case recorded == nil:
		d.requeueAt(now.Add(endDelay))
	case now.Before(recorded.LastTransitionTime.Add(endDelay)):
		d.requeueAt(recorded.LastTransitionTime.Add(endDelay))
	default:
		d.Expired = append(d.Expired, activeByAge(g.Pods)...)
	}
}

// requeueAt requeues the queue at the given time, unless an earlier time is set. The zero time changes nothing.
func (d *decision) requeueAt(t time.Time) { d.RequeueAt = policy.Earlier(d.RequeueAt, t) }
