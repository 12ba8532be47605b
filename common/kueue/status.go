package kueue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// maxMessage is the maximum length of the message of a condition, in bytes.
const maxMessage = 32768

// SetPodsReady sets the condition PodsReady. If waitForPodsReady is enabled in Kueue, Kueue evicts a Workload whose
// pods do not become ready in time. Before the pods are ready for the first time, SetPodsReady does not add the
// condition.
func SetPodsReady(w *kueuev1beta2.Workload, ready bool, now time.Time) {
	before := meta.FindStatusCondition(w.Status.Conditions, kueuev1beta2.ConditionPodsReady)
	wasReady := before != nil && before.Status == metav1.ConditionTrue
	recovers := before != nil &&
		(before.Reason == kueuev1beta2.ReasonWaitForRecovery || before.Reason == kueuev1beta2.ReasonRecovered)
	reason, message := kueuev1beta2.ReasonWaitForStart, "not all replicas run yet"
	switch {
	case ready && recovers:
		reason, message = kueuev1beta2.ReasonRecovered, "all replicas run again"
	case ready:
		reason, message = kueuev1beta2.ReasonStarted, "all replicas run"
	case wasReady, recovers:
		reason, message = kueuev1beta2.ReasonWaitForRecovery, "a replica is restarted"
	case before == nil:
		return
	}
	set(w, kueuev1beta2.ConditionPodsReady, ready, reason, message, now)
}

// Evict sets the condition Evicted, which stops the job. Call it for a job that has given back the quota of some
// replicas, although these replicas must run again. To get their quota back, the job must first give back all of its
// quota: until then, Kueue rejects a decrease of the numbers of reclaimable pods. An evicted Workload keeps its
// position in the queue.
func Evict(w *kueuev1beta2.Workload, now time.Time) {
	set(w, kueuev1beta2.ConditionEvicted, true, kueuev1beta2.ReasonQuotaGivenBack,
		"the job needs replicas again whose quota was given back", now)
}

// ClearAdmission gives back the quota of an evicted Workload. The pods of the Workload must be gone. ClearAdmission
// requeues a Workload that was preempted, that lost its nodes, or that Evict has evicted. After an eviction for
// another reason, Kueue decides when to requeue the Workload.
func ClearAdmission(w *kueuev1beta2.Workload, now time.Time) {
	status := &w.Status
	evicted := *meta.FindStatusCondition(status.Conditions, kueuev1beta2.ConditionEvicted)
	requeue := slices.Contains([]string{
		kueuev1beta2.ReasonPreempted, kueuev1beta2.ReasonNodeFailures, kueuev1beta2.ReasonQuotaGivenBack,
	}, evicted.Reason)
	set(w, kueuev1beta2.ConditionRequeued, requeue, evicted.Reason, evicted.Message, now)
	set(w, kueuev1beta2.ConditionQuotaReserved, false, kueuev1beta2.ReasonPending, evicted.Message, now)
	if admitted := meta.FindStatusCondition(status.Conditions, kueuev1beta2.ConditionAdmitted); admitted != nil &&
		admitted.Status == metav1.ConditionTrue {
		past := ptr.Deref(status.AccumulatedPastExecutionTimeSeconds, 0)
		past += int32(max(now.Sub(admitted.LastTransitionTime.Time), 0) / time.Second) //nolint:gosec // less than 68 years
		status.AccumulatedPastExecutionTimeSeconds = &past
		set(w, kueuev1beta2.ConditionAdmitted, false, kueuev1beta2.ReasonNoReservation,
			"the workload has no reservation", now)
	}
	if meta.FindStatusCondition(status.Conditions, kueuev1beta2.ConditionPodsReady) != nil {
		set(w, kueuev1beta2.ConditionPodsReady, false, kueuev1beta2.ReasonWaitForStart, "not all replicas run yet", now)
	}
	status.Admission = nil
	status.ReclaimablePods = nil
}

// Finish reports the end of the job in the condition Finished, unless the condition is already True.
func Finish(w *kueuev1beta2.Workload, end metav1.Condition, now time.Time) {
	if meta.IsStatusConditionTrue(w.Status.Conditions, kueuev1beta2.ConditionFinished) {
		return
	}
	reason := kueuev1beta2.ReasonFailed
	if end.Type != batchv1beta1.ConditionFailureTarget {
		reason = kueuev1beta2.ReasonSucceeded
	}
	// Leave out end.Message, because it can quote the output of a program.
	set(w, kueuev1beta2.ConditionFinished, true, reason, "the job has ended: "+end.Reason, now)
}

// NeedsReclaimed reports whether the roles need quota that the Workload has already given back. This is possible
// because earlier versions of the controllers gave back the quota of a replica that had ended, even if it could run
// again. The argument done is the number of ended replicas of each type.
func NeedsReclaimed(workload *kueuev1beta2.Workload, roles []framework.Role, done map[string]int32) bool {
	admitted, reclaimed := Admitted(workload), map[string]int32{}
	for _, r := range workload.Status.ReclaimablePods {
		reclaimed[r.Name] = r.Count
	}
	return slices.ContainsFunc(roles, func(role framework.Role) bool {
		most := admitted[role.Type]
		return min(role.Replicas, most)-done[role.Type] > most-reclaimed[role.Type]
	})
}

// Reclaim sets the number of reclaimable pods of each PodSet. This number never decreases. The argument spent maps
// the name of each PodSet to the number of its replicas that can never run again.
func Reclaim(w *kueuev1beta2.Workload, spent map[string]int32) {
	before := map[string]int32{}
	for _, r := range w.Status.ReclaimablePods {
		before[r.Name] = r.Count
	}
	var reclaimable []kueuev1beta2.ReclaimablePod
	for _, set := range w.Spec.PodSets {
		if n := min(set.Count, max(before[set.Name], spent[set.Name])); n > 0 {
			reclaimable = append(reclaimable, kueuev1beta2.ReclaimablePod{Name: set.Name, Count: n})
		}
	}
	w.Status.ReclaimablePods = reclaimable
}

// set sets a condition as Kueue does.
func set(w *kueuev1beta2.Workload, conditionType string, isTrue bool, reason, message string, now time.Time) {
	value := metav1.ConditionFalse
	if isTrue {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             value,
		Reason:             reason,
		Message:            report.Truncated(message, maxMessage),
		ObservedGeneration: w.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	})
}
