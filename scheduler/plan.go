package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

const (
	// refusedDelay is how long the controller waits before it tries again to create or update a refused group of the
	// engine. It waits for goneDelay instead if the cause is likely to disappear soon by itself.
	refusedDelay = 30 * time.Second
	goneDelay    = time.Second
	// waitingDelay is how often a waiting group is compared with the engine's group, since changes of the engine's
	// group do not requeue the queue.
	waitingDelay = time.Minute
)

// decision has the statuses to write, and the pods to release and to delete, for a queue and its groups.
type decision struct {
	// Groups has the new statuses of the groups, by key. A group whose state in the engine is not known has no new
	// status.
	Groups map[string]v1beta1.PodGroupStatus
	// Queue is the new status of the queue. It is unset if there is no queue.
	Queue v1beta1.QueueStatus
	// Release are the pods to remove the gate from.
	Release []*corev1.Pod
	// Expired are the pods to delete because maxDuration of the queue is exceeded.
	Expired []*corev1.Pod
	// RequeueAt is when to reconcile the queue again even if nothing happens. Zero means never.
	RequeueAt time.Time
}

// decide returns the decision about a queue, after the engine was brought up to date. decide is a pure function.
func decide(e engine, view queueView, now time.Time) decision {
	d := decision{Groups: map[string]v1beta1.PodGroupStatus{}}
	view.Groups = slices.Clone(view.Groups)
	for i := range view.Groups {
		g := &view.Groups[i]
		g.Admission, g.Limits, g.NeedsOneClass = view.admission(*g), e.groupLimits(*g), e.needsOneClass()
	}
	var waiting map[string]shortage
	var quota corev1.ResourceList
	if view.Queue != nil {
		quota = quotaOf(view.Queue)
		d.Release, waiting = release(quota, view.Groups, view.Orphans)
		maps.Copy(waiting, overQuota(quota, view.Groups, view.Orphans))
	}
	for _, g := range view.Groups {
		status := groupStatus(g, waiting, view.maxDuration(), now)
		status.Gated = e.gates(view.Queue)
		status.Allocated = allocatedTo(g.Pods, quota)
		if g.isAdmitted() {
			status.PriorityClassName = g.ClassInForce
		}
		d.Groups[g.key()] = status
	}
	if view.Queue != nil {
		d.expire(view, now)
		d.Queue = queueStatus(view, e.queueLimits(view.Queue), now)
	}
	d.requeueAt(view.RequeueAt)
	d.requeueAt(view.Blocker.RequeueAt)
	for _, g := range view.Groups {
		if !meta.IsStatusConditionTrue(d.Groups[g.key()].Conditions, v1beta1.ConditionGroupScheduled) {
			d.requeueAt(now.Add(waitingDelay))
		}
		if g.Unknown {
			delete(d.Groups, g.key()) // not before expire, which uses the status of each group
		}
	}
	return d
}

// admission returns the condition Admitted of a group.
func (view queueView) admission(g groupView) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{
			Type: v1beta1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: reason,
			Message: fmt.Sprintf(format, args...),
		}
	}
	name := g.Group.Spec.Queue
	switch {
	case view.Queue == nil:
		return no(v1beta1.ReasonQueueNotFound, "there is no Queue %q", name)
	case !g.Selected:
		return no(v1beta1.ReasonNamespaceNotSelected,
			"the namespaceSelector of Queue %q does not select namespace %q", name, g.Group.Namespace)
	case view.Queue.Spec.Closed:
		return no(v1beta1.ReasonQueueClosed, "Queue %q is closed", name)
	case view.Blocker.Message != "":
		return no(v1beta1.ReasonEngineNotReady, "%s", view.Blocker.Message)
	case g.WaitsForEarlier:
		return no(v1beta1.ReasonEarlierGroup, "%s", g.Blocker)
	case g.Blocker != "":
		return no(v1beta1.ReasonEngineNotReady, "%s", g.Blocker)
	}
	return metav1.Condition{
		Type: v1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAdmitted,
		Message: fmt.Sprintf("Queue %q takes the group", name),
	}
}

// groupStatus returns the new status of a group.
func groupStatus(
	g groupView, waiting map[string]shortage, maxDuration *v1beta1.Duration, now time.Time,
) v1beta1.PodGroupStatus {
	scheduled := scheduled(g, waiting)
	scheduledTime := g.scheduledTime(scheduled, maxDuration, now)
	conditions := append([]metav1.Condition{g.Admission, sufficient(g), scheduled}, g.Limits...)
	if c := g.exceeded(scheduledTime, maxDuration, now); c != nil {
		conditions = append(conditions, *c)
	}
	if policy := g.Group.Spec.TopologyPolicy; policy != "" {
		conditions = append(conditions,
			notSupported(v1beta1.ConditionTopologyHonoured,
				fmt.Sprintf("the pods are placed without regard to topologyPolicy %q", policy)))
	}
	return v1beta1.PodGroupStatus{
		ObservedGeneration: g.Group.Generation,
		Conditions:         since(conditions, g.Group.Status.Conditions, g.Group.Generation, now),
		ScheduledTime:      scheduledTime,
		PriorityClassName:  g.Group.Status.PriorityClassName,
		PodCounts:          countPods(g.Pods),
	}
}

// sufficient returns the condition SufficientGroupMember, which is True if there are as many pods as the group needs.
func sufficient(g groupView) metav1.Condition {
	gated, through := g.split()
	n := needOf(g.Group.Spec)
	c := metav1.Condition{
		Type: v1beta1.ConditionSufficientGroupMember, Status: metav1.ConditionTrue,
		Reason: v1beta1.ReasonEnoughPods, Message: "there are as many pods as the group needs",
	}
	if there := slices.Concat(gated, through); !n.without(there).isMet() {
		c.Status, c.Reason = metav1.ConditionFalse, v1beta1.ReasonTooFewPods
		c.Message = fmt.Sprintf("%d of %d pods exist%s", len(there), n.Min, n.without(there).roles())
	}
	return c
}

// scheduled returns the condition GroupScheduled, which is True if as many pods as the group needs are on nodes or have
// succeeded.
func scheduled(g groupView, waiting map[string]shortage) metav1.Condition {
	n := needOf(g.Group.Spec)
	var placed []*corev1.Pod
	var foreign *corev1.Pod
	var unschedulable string
	for _, pod := range slices.SortedFunc(slices.Values(g.Pods), byAge) {
		if foreign == nil && isGated(pod) && pod.DeletionTimestamp.IsZero() && g.hasForeignClass(pod) {
			foreign = pod
		}
		if isPlaced(pod) {
			placed = append(placed, pod)
		} else if unschedulable == "" {
			unschedulable = whyUnschedulable(pod)
		}
	}
	c := metav1.Condition{Type: v1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse}
	missing := fmt.Sprintf("%d of %d pods are on nodes%s", len(placed), n.Min, n.without(placed).roles())
	over, isWaiting := waiting[g.key()]
	switch {
	case n.without(placed).isMet():
		c.Status, c.Reason = metav1.ConditionTrue, v1beta1.ReasonScheduled
		c.Message = "the pods that the group needs are on nodes"
	case !g.isAdmitted():
		c.Reason, c.Message = g.Admission.Reason, missing+": "+g.Admission.Message
	case foreign != nil:
		c.Reason = v1beta1.ReasonPriorityClassMismatch
		c.Message = fmt.Sprintf("%s: pod %s has PriorityClass %q, but its group has %q: delete the pod, and set no "+
			"priorityClassName in its replacement",
			missing, foreign.Name, foreign.Spec.PriorityClassName, g.ClassInForce)
	case over.Claim != "":
		c.Reason = v1beta1.ReasonQuotaExceeded
		c.Message = fmt.Sprintf("%s: the quota of Queue %q limits devices, but those of pod %s cannot be counted: "+
			"ResourceClaim %s does not exist or has too many DeviceClasses", missing, g.Group.Spec.Queue, over.Pod, over.Claim)
	case isWaiting:
		c.Reason = v1beta1.ReasonQuotaExceeded
		c.Message = fmt.Sprintf("%s: not enough %s left in the quota of Queue %q", missing, over.Resource,
			g.Group.Spec.Queue)
	case sufficient(g).Status != metav1.ConditionTrue:
		c.Reason, c.Message = v1beta1.ReasonTooFewPods, sufficient(g).Message
	case unschedulable != "":
		c.Reason, c.Message = v1beta1.ReasonUnschedulable, missing+": "+unschedulable
	default:
		c.Reason, c.Message = v1beta1.ReasonScheduling, missing+": no scheduler named "+v1beta1.SchedulerName+
			" has tried to place the other pods yet"
	}
	return c
}

// whyUnschedulable returns the message of the scheduler about a pod that it could not place. Empty if there is none.
func whyUnschedulable(pod *corev1.Pod) string {
	c := policy.ConditionOf(pod, corev1.PodScheduled)
	if c.Status != corev1.ConditionFalse || c.Reason == corev1.PodReasonSchedulingGated {
		return ""
	}
	return c.Message
}

// roles returns how many pods each role still needs, for a message.
func (n need) roles() string {
	var text strings.Builder
	for _, role := range slices.Sorted(maps.Keys(n.Roles)) {
		if n.Roles[role] > 0 {
			fmt.Fprintf(&text, ", %d more of role %s needed", n.Roles[role], role)
		}
	}
	return text.String()
}

// queueStatus returns the new status of a queue. The parameter limits has conditions about the parts of the queue's
// spec that the engine does not support.
func queueStatus(view queueView, limits []metav1.Condition, now time.Time) v1beta1.QueueStatus {
	pods := view.pods()
	active := metav1.Condition{
		Type: v1beta1.ConditionActive, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonOpen,
		Message: "the queue is open",
	}
	if view.Queue.Spec.Closed {
		active.Status, active.Reason = metav1.ConditionFalse, v1beta1.ReasonQueueClosed
		active.Message = "spec.closed is true: the queue allocates no more resources"
	}
	conditions := append([]metav1.Condition{active}, limits...)
	return v1beta1.QueueStatus{
		ObservedGeneration: view.Queue.Generation,
		Conditions:         since(conditions, view.Queue.Status.Conditions, view.Queue.Generation, now),
		Allocated:          allocatedTo(pods, quotaOf(view.Queue)),
		//nolint:gosec // a cluster has fewer groups than an int32 can count
		PodGroups: v1beta1.QueuePodGroups{Total: int32(len(view.selected()))},
		Pods:      countPods(pods),
	}
}

// since completes new conditions: it truncates their messages, and sets their generation and transition time. If the
// earlier condition of the same type has the same status, the transition time stays the same. An earlier condition
// without a new one is dropped, for example a condition about a part of the spec that has been removed.
func since(conditions, before []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	for i := range conditions {
		c := &conditions[i]
		c.ObservedGeneration = generation
		c.Message = report.Truncated(c.Message, report.MaxMessage)
		c.LastTransitionTime = metav1.NewTime(now)
		if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return conditions
}

// quotaOf returns the quota of a queue. Nil means no limit.
func quotaOf(queue *v1beta1.Queue) corev1.ResourceList {
	if queue.Spec.Quota == nil {
		return nil
	}
	return queue.Spec.Quota.Requests
}
