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
	"tensorstack.dev/jobs/common/report"
)

// queueView is what there is of a queue and of all that it is to schedule.
type queueView struct {
	// Queue is nil if there is none of the name.
	Queue  *v1beta1.Queue
	Groups []groupView
	// Orphans are pods of the queue on nodes whose group is gone: they have what they have until they end.
	Orphans []*corev1.Pod
	// Hindrance is why the engine cannot schedule any group.
	Hindrance hindrance
	// LookIn is when to look at the queue again though nothing wakes it; 0 is not.
	LookIn time.Duration
}

// groupView is what there is of a PodGroup.
type groupView struct {
	Group *v1beta1.PodGroup
	// Pods of the group that are not being deleted for long.
	Pods []*corev1.Pod
	// Selected says that the queue takes groups of this namespace.
	Selected bool
	// Limits are conditions that say what the engine cannot do of the group's spec.
	Limits []metav1.Condition
	// Class is the PriorityClass that the engine knows the group's priority by.
	Class priorityClass
	// ClassInForce is the PriorityClass that the engine has for the group, which its new pods must have.
	ClassInForce string
	// NeedsOneClass reports whether the engine schedules only pods that have the class in force.
	NeedsOneClass bool
	// Hindrance says why the engine cannot know of the group or schedule it, empty if it can.
	Hindrance string
	// Unknown says that it is not known whether the engine knows of the group.
	Unknown bool
	// Admission is the condition Admitted, as plan decides it.
	Admission metav1.Condition
}

// isAdmitted says that the group may have pods.
func (g groupView) isAdmitted() bool {
	return g.Admission.Status == metav1.ConditionTrue && !g.Unknown
}

func (g groupView) key() string { return g.Group.Namespace + "/" + g.Group.Name }

// decision is what to do about a queue.
type decision struct {
	// Statuses of the groups, by their keys.
	Groups map[string]v1beta1.PodGroupStatus
	// Queue is the status of the queue, if there is one.
	Queue v1beta1.QueueStatus
	// Release are pods that may be scheduled from now on.
	Release []*corev1.Pod
	// Expired are pods that are older than the queue allows.
	Expired []*corev1.Pod
	// WakeIn is when the next pod expires; 0 is never.
	WakeIn time.Duration
}

// plan decides about a queue. It is a pure function.
func plan(view queueView, gated bool, limits []metav1.Condition, now time.Time) decision {
	d := decision{Groups: map[string]v1beta1.PodGroupStatus{}}
	view.Groups = slices.Clone(view.Groups)
	for i := range view.Groups {
		g := &view.Groups[i]
		g.Admission = view.admission(*g)
	}
	var waiting map[string]held
	if view.Queue != nil {
		d.Release, waiting = release(quotaOf(view.Queue), view.Groups, view.Orphans)
		maps.Copy(waiting, overQuota(quotaOf(view.Queue), view.Groups, view.Orphans))
	}
	for _, g := range view.Groups {
		status := groupStatus(g, waiting, view.maxDuration(), now)
		status.Gated = gated
		if g.isAdmitted() {
			status.PriorityClassName = g.ClassInForce
		}
		d.Groups[g.key()] = status
	}
	if view.Queue != nil {
		d.expire(view, now)
		d.Queue = queueStatus(view, limits, now)
	}
	return d
}

// selected returns the groups of namespaces that the queue selects. Anybody may create a group that names the queue.
func (view queueView) selected() []groupView {
	return slices.DeleteFunc(slices.Clone(view.Groups), func(g groupView) bool { return !g.Selected })
}

// pods returns all pods of the queue.
func (view queueView) pods() []*corev1.Pod {
	pods := slices.Clone(view.Orphans)
	for _, g := range view.selected() {
		pods = append(pods, g.Pods...)
	}
	return pods
}

// admission says whether a group may have pods.
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
			"Queue %q does not take groups of namespace %q: its namespaceSelector does not select it", name, g.Group.Namespace)
	case view.Queue.Spec.Closed:
		return no(v1beta1.ReasonQueueClosed, "Queue %q is closed", name)
	case view.Hindrance.Message != "":
		return no(v1beta1.ReasonEngineNotReady, "%s", view.Hindrance.Message)
	case g.Hindrance != "":
		return no(v1beta1.ReasonEngineNotReady, "%s", g.Hindrance)
	}
	return metav1.Condition{
		Type: v1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAdmitted,
		Message: fmt.Sprintf("Queue %q takes the group", name),
	}
}

// groupStatus says how a group is.
func groupStatus(
	g groupView, waiting map[string]held, maxDuration *v1beta1.Duration, now time.Time,
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
		Allocated:          allocatedTo(g.Pods),
		PodCounts:          countPods(g.Pods),
	}
}

// sufficient says whether there are as many pods as the group needs.
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

// scheduled says whether as many pods as the group needs are on nodes, or have succeeded.
func scheduled(g groupView, waiting map[string]held) metav1.Condition {
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
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1beta1.ReasonScheduled, "the pods that the group needs are on nodes"
	case !g.isAdmitted():
		c.Reason, c.Message = g.Admission.Reason, missing+": "+g.Admission.Message
	case foreign != nil:
		c.Reason = v1beta1.ReasonPriorityClassMismatch
		c.Message = fmt.Sprintf("%s: pod %s has the PriorityClass %q, and the group has %q: delete the pod, and name "+
			"no PriorityClass for its successor",
			missing, foreign.Name, foreign.Spec.PriorityClassName, g.ClassInForce)
	case isWaiting:
		c.Reason = v1beta1.ReasonQuotaExceeded
		c.Message = fmt.Sprintf("%s: the quota of Queue %q has too little %s left", missing, g.Group.Spec.Queue,
			over.Resource)
	case sufficient(g).Status != metav1.ConditionTrue:
		c.Reason, c.Message = v1beta1.ReasonTooFewPods, sufficient(g).Message
	case unschedulable != "":
		c.Reason, c.Message = v1beta1.ReasonUnschedulable, missing+": "+unschedulable
	default:
		c.Reason, c.Message = v1beta1.ReasonScheduling, missing+": no scheduler named "+v1beta1.SchedulerName+
			" has tried the others yet"
	}
	return c
}

// whyUnschedulable repeats what the scheduler says of a pod.
func whyUnschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return c.Message
		}
	}
	return ""
}

// roles names the roles that something is missing of, for a message.
func (n need) roles() string {
	var text strings.Builder
	for _, role := range slices.Sorted(maps.Keys(n.Roles)) {
		if n.Roles[role] > 0 {
			fmt.Fprintf(&text, ", %d of role %s are missing", n.Roles[role], role)
		}
	}
	return text.String()
}

// queueStatus says how a queue is, with what the engine cannot do of its spec.
func queueStatus(view queueView, limits []metav1.Condition, now time.Time) v1beta1.QueueStatus {
	pods := view.pods()
	active := metav1.Condition{
		Type: v1beta1.ConditionActive, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonOpen,
		Message: "the queue allocates",
	}
	if view.Queue.Spec.Closed {
		active.Status, active.Reason, active.Message = metav1.ConditionFalse, v1beta1.ReasonQueueClosed, "spec.closed is true: nothing more is allocated"
	}
	conditions := append([]metav1.Condition{active}, limits...)
	return v1beta1.QueueStatus{
		ObservedGeneration: view.Queue.Generation,
		Conditions:         since(conditions, view.Queue.Status.Conditions, view.Queue.Generation, now),
		Allocated:          allocatedTo(pods),
		//nolint:gosec // a cluster holds far fewer groups
		PodGroups: v1beta1.QueuePodGroups{Total: int32(len(view.selected()))},
		Pods:      countPods(pods),
	}
}

// since cuts the messages of conditions and dates them: from now on, unless they were like that before. What was said
// before and is not now, is left out: the engine can do it after all, since the spec has changed.
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

// quotaOf returns the quota of a queue; nil is no limit.
func quotaOf(queue *v1beta1.Queue) corev1.ResourceList {
	if queue.Spec.Quota == nil {
		return nil
	}
	return queue.Spec.Quota.Requests
}
