package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// groupOfJobs is the API group of the kinds of jobs.
const groupOfJobs = "batch.tensorstack.dev"

// endDelay is how long the controller of a job has to end the job, once the group has the condition
// MaxDurationExceeded. Then the pods are deleted. A controller of an earlier version does not know the condition.
const endDelay = 30 * time.Second

// maxDuration returns how long groups of the queue may be on nodes. Nil means for ever.
func (view queueView) maxDuration() *v1beta1.Duration {
	if view.Queue == nil {
		return nil
	}
	return view.Queue.Spec.MaxDuration
}

// isOfJob reports whether a job controls the group, which can end.
func (g groupView) isOfJob() bool {
	owner := metav1.GetControllerOf(g.Group)
	if owner == nil {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	//equivalent:always err == nil => a version that cannot be read has no group
	return err == nil && version.Group == groupOfJobs
}

// scheduledTime returns when the group was scheduled for the first time. Nil means that it was not, or that no
// maxDuration counts from then. If the group was created when its pods were on nodes already, it is the time of the
// first of them: a tenant may delete a group.
func (g groupView) scheduledTime(scheduled metav1.Condition, most *v1beta1.Duration, now time.Time) *metav1.Time {
	if most == nil || g.Group.Status.ScheduledTime != nil || scheduled.Status != metav1.ConditionTrue {
		return g.Group.Status.ScheduledTime
	}
	first := metav1.NewTime(now)
	for _, pod := range g.Pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.Before(&first) {
				first = c.LastTransitionTime
			}
		}
	}
	return &first
}

// exceeded returns the condition MaxDurationExceeded if it is True, and otherwise nil.
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

// expire finds the pods that are on nodes for longer than the queue allows, and when the next ones are.
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

// expirePods takes the pods that have existed for longer than that.
func (d *decision) expirePods(pods []*corev1.Pod, length time.Duration, now time.Time) {
	for _, pod := range pods {
		switch left := pod.CreationTimestamp.Add(length).Sub(now); {
		case isDone(pod) || !pod.DeletionTimestamp.IsZero():
		case left <= 0:
			d.Expired = append(d.Expired, pod)
		default:
			d.wakeIn(left)
		}
	}
}

// expireGroup takes the pods of a job whose time is over, if its controller has not ended the job in time. It counts
// from when the condition was recorded, which the controller of the job may have seen.
func (d *decision) expireGroup(g groupView, end, now time.Time) {
	recorded := meta.FindStatusCondition(g.Group.Status.Conditions, v1beta1.ConditionMaxDurationExceeded)
	switch {
	case now.Before(end):
		d.wakeIn(end.Sub(now))
	case recorded == nil:
		d.wakeIn(endDelay)
	case now.Before(recorded.LastTransitionTime.Add(endDelay)):
		d.wakeIn(recorded.LastTransitionTime.Add(endDelay).Sub(now))
	default:
		for _, pod := range g.Pods {
			if !isDone(pod) && pod.DeletionTimestamp.IsZero() {
				d.Expired = append(d.Expired, pod)
			}
		}
	}
}

// wakeIn has the queue looked at again in so long, or sooner.
func (d *decision) wakeIn(left time.Duration) {
	//equivalent:boundary of left < d.WakeIn => what is equal may replace the other
	if d.WakeIn == 0 || left < d.WakeIn {
		d.WakeIn = left
	}
}
