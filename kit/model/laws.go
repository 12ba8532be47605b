package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
)

// Reporter receives the violations of laws. A testing.TB is a Reporter.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// CheckLaws reports the laws that a write violates. Laws are invariants that hold for every write, whatever faults
// came before. Some laws apply only to writes of the controller. The given Objects are those after the write.
func CheckLaws(t Reporter, k Kind, now Objects, change Change, by Writer) {
	t.Helper()
	if by.IsController {
		checkOwner(t, change)
		checkDeletion(t, k, now, change)
		checkSecretDeletion(t, k, now, change)
		checkClearing(t, now, change)
		checkReclaiming(t, now, change)
	}
	before, after := change.Before, change.After
	if before == nil && IsLate(after) {
		return // the controller decided on the creation earlier and cannot cancel it
	}
	if pod, ok := after.(*corev1.Pod); ok && before == nil && owned(pod) {
		checkCreation(t, k, now, pod, by.Unseen)
		checkAvoidance(t, now, pod)
	}
	if tensorBoard, ok := after.(*tensorboardv1beta1.TensorBoard); ok && before == nil && owned(tensorBoard) {
		checkTensorBoardCreation(t, now)
	}
	if group, ok := after.(*schedulerv1beta1.PodGroup); ok && before == nil && owned(group) {
		checkGroupCreation(t, k, now)
	}
	old, isJob := before.(framework.Job)
	job, remains := after.(framework.Job)
	if !isJob || !remains {
		return
	}
	status := *job.JobStatus()
	checkStatus(t, *old.JobStatus(), status)
	if by.IsController {
		checkStall(t, k, now, *old.JobStatus(), status, by)
		checkNodes(t, k, now, *old.JobStatus(), status, by)
	}
	becomesTrue := func(condition string) bool { return IsTrue(status, condition) && !IsTrue(*old.JobStatus(), condition) }
	isSeen := func(pod *corev1.Pod) bool { return pod.UID != by.Unseen && !IsRelabelled(pod) }
	if becomesTrue(batchv1beta1.ConditionPaused) && slices.ContainsFunc(now.Pods(), isSeen) {
		t.Errorf("the job becomes Paused while it has pods: %s", now.Describe())
	}
	if status.Finished() && !old.JobStatus().Finished() {
		checkFinish(t, k, now, job, isSeen)
	}
	if a := status.Aggregate; becomesTrue(batchv1beta1.ConditionRunning) && k.SpecOf(job).Elastic == nil &&
		a.Creating+a.Pending+a.Deleted+a.Unknown > 0 {
		t.Errorf("the job becomes Running, but its aggregate is %+v", *a)
	}
}

// checkCreation checks that the creation of a pod is allowed. The check ignores the pod whose UID is the parameter
// unseen, because the controller cannot know about that pod.
func checkCreation(t Reporter, k Kind, now Objects, pod *corev1.Pod, unseen types.UID) {
	t.Helper()
	job := now.Job()
	if job == nil {
		return // the job was just deleted, and the garbage collector deletes the pod
	}
	status := *job.JobStatus()
	if status.Decided() {
		t.Errorf("pod %s is created although the end of the job is decided (phase %s)", pod.Name, status.Phase)
	}
	spec := k.SpecOf(job)
	if spec.RunMode.Pausing() {
		t.Errorf("pod %s is created although the job must pause", pod.Name)
	}
	// The controller can delay the first status of a job until the replicas run, unless the job is elastic, is in a queue
	// or has a deadline.
	firstMayWait := spec.Elastic == nil && spec.Scheduler == nil && spec.RunPolicy.ActiveDeadlineSeconds == nil
	if !isListed(status, pod.Name) && (status.ObservedGeneration > 0 || !firstMayWait) {
		t.Errorf("pod %s is created before its replica is in the status", pod.Name)
	}
	asked := cmp.Or(pod.Annotations[AskedAnnotation], AttemptLabel(pod))
	if want := AttemptOf(status, pod.Name); asked != want {
		t.Errorf("pod %s is created for attempt %s, but the current attempt is %s", pod.Name, asked, want)
	}
	if spec.Scheduler != nil {
		checkMembership(t, now, job, pod)
	}
	if job.GetLabels()[kueuev1beta2.LabelQueueName] != "" {
		checkAdmission(t, now, job, pod, unseen)
	}
	for _, other := range now.Pods() {
		if IsRelabelled(other) || other.UID == pod.UID || other.UID == unseen {
			continue
		}
		// If admission removed the attempt label of the other pod, its annotation has the attempt. If a user removed the
		// label later, the attempt of the pod is unknown here, and the law does not apply.
		made := cmp.Or(other.Annotations[AskedAnnotation], AttemptLabel(other))
		if of, _, _ := strings.Cut(made, "."); of != "" && of != fmt.Sprint(status.Attempt+status.Pauses+status.Evictions) {
			t.Errorf("pod %s is created while pod %s of an earlier attempt of the whole job exists: %s",
				pod.Name, other.Name, now.Describe())
		}
		before := other.Annotations[MembersAnnotation]
		if spec.Elastic == nil && before != pod.Annotations[MembersAnnotation] {
			t.Errorf("pod %s is created for a job of %s replicas, but pod %s was created for a job of %s replicas",
				pod.Name, pod.Annotations[MembersAnnotation], other.Name, before)
		}
	}
}

// IsRelabelled reports whether a user or admission changed the labels by which the controller finds a pod. The
// controller finds such a pod only when it needs the name of the pod for a new pod.
func IsRelabelled(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Labels[batchv1beta1.LabelJobKind] != owner.Kind || pod.Labels[batchv1beta1.LabelJobName] != owner.Name
}

// checkMembership checks that a pod is created in the job's own PodGroup, that the current generation of the PodGroup
// is admitted, and that the PodGroup does not wait for replicas that have ended.
func checkMembership(t Reporter, now Objects, job framework.Job, pod *corev1.Pod) {
	t.Helper()
	group := now.PodGroup()
	if group == nil || !metav1.IsControlledBy(group, job) || group.DeletionTimestamp != nil ||
		group.Status.ObservedGeneration != group.Generation ||
		!meta.IsStatusConditionTrue(group.Status.Conditions, schedulerv1beta1.ConditionAdmitted) {
		t.Errorf("pod %s is created, but its job has no PodGroup whose current generation is admitted: %+v",
			pod.Name, group)
		return
	}
	if pod.Labels[schedulerv1beta1.LabelGroupName] != group.Name ||
		pod.Spec.SchedulerName != schedulerv1beta1.SchedulerName {
		t.Errorf("pod %s is not a member of the PodGroup", pod.Name)
	}
	left := int32(0)
	for r := range job.JobStatus().EachReplica() {
		if r.Phase != batchv1beta1.ReplicaPhaseSucceeded && r.Phase != batchv1beta1.ReplicaPhaseFailed {
			left++
		}
	}
	if group.Spec.MinMember > left {
		t.Errorf("pod %s waits for a gang of %d pods, but only %d replicas have not ended: %s",
			pod.Name, group.Spec.MinMember, left, now.Describe())
	}
}

// checkGroupCreation checks that a PodGroup is created only for a job that names a queue, that is not pausing, and
// whose end is not decided.
func checkGroupCreation(t Reporter, k Kind, now Objects) {
	t.Helper()
	job := now.Job()
	switch {
	case job == nil: // the job was just deleted
	case k.SpecOf(job).Scheduler == nil:
		t.Errorf("a PodGroup is created for a job without a queue")
	case job.JobStatus().Decided() || k.SpecOf(job).RunMode.Pausing():
		t.Errorf("a PodGroup is created for a job in phase %s (its end is decided: %t, it must pause: %t)",
			job.JobStatus().Phase, job.JobStatus().Decided(), k.SpecOf(job).RunMode.Pausing())
	}
}

// checkDeletion checks that the controller does not delete a pod of the current attempt. The exception is a pod that
// has no node, if the job no longer avoids the node that the pod's annotation names. Once the end of the job is
// decided, another rule applies: the controller deletes only pods that the cleanUpPolicy does not keep for their
// logs.
func checkDeletion(t Reporter, k Kind, now Objects, change Change) {
	t.Helper()
	pod, ok := change.Before.(*corev1.Pod)
	job, isDeleted := now.Job(), change.After == nil || change.After.GetDeletionTimestamp() != nil
	if !ok || pod.DeletionTimestamp != nil || !isDeleted || job == nil || IsRelabelled(pod) {
		return
	}
	switch status := *job.JobStatus(); {
	case status.Decided():
		if !policy.CleansUp(k.SpecOf(job).RunPolicy, pod) {
			t.Errorf("the clean-up deletes pod %s in phase %s, but the cleanUpPolicy keeps it", pod.Name, pod.Status.Phase)
		}
	case IsLate(pod) && k.SpecOf(job).RunMode.Pausing(): // allowed: a pause before the start begins no new attempt
	case isReplaced(status, pod):
	case isListed(status, pod.Name) && AttemptLabel(pod) == AttemptOf(status, pod.Name):
		t.Errorf("the controller deletes pod %s of the current attempt", pod.Name)
	}
}

// checkSecretDeletion checks that the Secret that the replicas share is deleted only when no replica runs. Pods that
// are being deleted are exempt, because they have already read the Secret. Elastic jobs are exempt, because replicas
// that an elastic job has given up can still run when the job ends. Pods of an earlier attempt that a delayed write
// created are exempt, because the cleanUpPolicy None keeps them. Relabelled pods are exempt, because the controller
// finds such a pod only if the job needs its name. After a user has reduced the replicas of a paused job, for example,
// the job no longer needs some names.
func checkSecretDeletion(t Reporter, k Kind, now Objects, change Change) {
	t.Helper()
	_, isSecret := change.Before.(*corev1.Secret)
	job := now.Job()
	if !isSecret || change.After != nil || job == nil || k.SpecOf(job).Elastic != nil {
		return
	}
	for _, pod := range now.Pods() {
		isOfThePast := IsLate(pod) && AttemptLabel(pod) != AttemptOf(*job.JobStatus(), pod.Name)
		isExempt := isOfThePast || IsRelabelled(pod) || pod.DeletionTimestamp != nil
		if !policy.Ended(pod) && !kubelet.HasEnded(pod) && !isExempt {
			t.Errorf("the controller deletes the Secret of the job while pod %s is %s", pod.Name, pod.Status.Phase)
		}
	}
}

// checkTensorBoardCreation checks that a TensorBoard is created only for a job that specifies one and whose end is not
// decided. The status must already mention the TensorBoard, so that the controller finds it again after any fault.
func checkTensorBoardCreation(t Reporter, now Objects) {
	t.Helper()
	job, ok := now.Job().(framework.TensorBoardJob)
	switch {
	case !ok: // the job was just deleted
	case job.JobStatus().Decided():
		t.Errorf("a TensorBoard is created although the end of the job is decided (phase %s)", job.JobStatus().Phase)
	case job.TensorBoardSpec() == nil:
		t.Errorf("a TensorBoard is created for a job that does not specify one")
	case job.TensorBoardStatus() == nil:
		t.Errorf("a TensorBoard is created before it is in the status")
	}
}

// checkFinish checks that the conditions of a finished job match its phase. Unless the cleanUpPolicy is None, it also
// checks that none of the pods that the controller could have seen still runs.
func checkFinish(t Reporter, k Kind, now Objects, job framework.Job, isSeen func(*corev1.Pod) bool) {
	t.Helper()
	status := *job.JobStatus()
	hasSucceeded, hasFailed := status.Phase == batchv1beta1.JobPhaseSucceeded, status.Phase == batchv1beta1.JobPhaseFailed
	for condition, want := range map[string]bool{
		batchv1beta1.ConditionSuccessCriteriaMet: hasSucceeded,
		batchv1beta1.ConditionCompleted:          hasSucceeded,
		batchv1beta1.ConditionFailureTarget:      hasFailed,
		batchv1beta1.ConditionFailed:             hasFailed,
	} {
		if IsTrue(status, condition) != want {
			t.Errorf("the job becomes %s, but its condition %s is %t", status.Phase, condition, !want)
		}
	}
	if k.SpecOf(job).RunPolicy.CleanUpPolicy == batchv1beta1.CleanUpPolicyNone {
		return
	}
	for _, pod := range now.Pods() {
		if policy.MayRun(pod) && isSeen(pod) {
			t.Errorf("the job becomes %s while pod %s runs: %s", status.Phase, pod.Name, now.Describe())
		}
	}
}

// IsTrue reports whether a condition of a job is true.
func IsTrue(status batchv1beta1.JobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(status.Conditions, condition)
}

// AttemptLabel returns the attempt in the labels of a pod.
func AttemptLabel(pod *corev1.Pod) string { return pod.Labels[batchv1beta1.LabelAttempt] }

func checkStatus(t Reporter, before, after batchv1beta1.JobStatus) {
	t.Helper()
	for _, count := range []struct {
		name          string
		before, after int32
	}{
		{"backoffCount", before.BackoffCount, after.BackoffCount},
		{"disruptions", before.Disruptions, after.Disruptions},
		{"attempt", before.Attempt, after.Attempt},
		{"pauses", before.Pauses, after.Pauses},
		{"evictions", before.Evictions, after.Evictions},
	} {
		if count.after < count.before {
			t.Errorf("%s decreases from %d to %d", count.name, count.before, count.after)
		}
	}
	if after.ObservedGeneration > 0 && (after.Phase == "" || after.Reason == "" ||
		meta.FindStatusCondition(after.Conditions, batchv1beta1.ConditionInitialized) == nil ||
		meta.FindStatusCondition(after.Conditions, batchv1beta1.ConditionRunning) == nil) {
		t.Errorf("the status lacks a phase, a reason, or the condition Initialized or Running: %+v", after)
	}
	if a := after.Aggregate; a != nil {
		replicas := 0
		for _, task := range after.Tasks {
			replicas += len(task.Replicas)
		}
		if sum := a.Creating + a.Pending + a.Running + a.Succeeded + a.Failed + a.Unknown + a.Deleted; int(sum) != replicas {
			t.Errorf("the status lists %d replicas, but its aggregate adds up to %d", replicas, sum)
		}
	}
	if counted := after.BackoffCount + after.Disruptions - before.BackoffCount - before.Disruptions; counted >
		countRestarts(after)-countRestarts(before) {
		t.Errorf("%d failures are counted, but fewer replicas are restarted: from %+v to %+v", counted, before, after)
	}
	checkDefaults(t, before, after)
	if before.Decided() && !before.Finished() {
		checkDecided(t, before, after)
	}
	if !before.Finished() {
		return
	}
	for _, status := range []*batchv1beta1.JobStatus{&before, &after} {
		status.Tasks, status.Aggregate, status.Ready, status.Replicas, status.ObservedGeneration = nil, nil, "", 0, 0
		status.Omitted = ""
	}
	if diff := gocmp.Diff(before, after); diff != "" {
		t.Errorf("the status of a finished job changes (-before +after):\n%s", diff)
	}
}

// checkDefaults checks that a job records its defaults when it starts, and keeps them until it is paused.
func checkDefaults(t Reporter, before, after batchv1beta1.JobStatus) {
	t.Helper()
	hasStarted := after.StartTime != nil && before.StartTime == nil
	isKept := before.Defaults == nil || after.Pauses > before.Pauses || isPausing(after) ||
		gocmp.Equal(before.Defaults, after.Defaults)
	if hasStarted && after.Defaults == nil || !isKept {
		t.Errorf("a job has started, and its defaults change from %+v to %+v", before.Defaults, after.Defaults)
	}
}

// isPausing reports whether a job is paused, or is being paused.
func isPausing(status batchv1beta1.JobStatus) bool {
	return status.Reason == batchv1beta1.ReasonPaused || status.Reason == batchv1beta1.ReasonPausing
}

// countRestarts returns the number of restarts of all replicas. An eviction or a pause is no restart.
func countRestarts(status batchv1beta1.JobStatus) int32 {
	restarts := int32(0)
	for _, task := range status.Tasks {
		restarts += task.RestartCount
	}
	return restarts
}

// checkDecided checks that a status keeps the decided end of the job, its failures and all counts.
func checkDecided(t Reporter, before, after batchv1beta1.JobStatus) {
	t.Helper()
	for _, condition := range []string{batchv1beta1.ConditionSuccessCriteriaMet, batchv1beta1.ConditionFailureTarget} {
		was := meta.FindStatusCondition(before.Conditions, condition)
		if diff := gocmp.Diff(was, meta.FindStatusCondition(after.Conditions, condition)); diff != "" {
			t.Errorf("the decided end of a job changes (-before +after):\n%s", diff)
		}
	}
	if diff := gocmp.Diff(before.Failures, after.Failures); diff != "" || before.BackoffCount != after.BackoffCount ||
		before.Disruptions != after.Disruptions || before.Attempt != after.Attempt || before.Pauses != after.Pauses ||
		before.Evictions != after.Evictions {
		t.Errorf("a count changes after the end of the job is decided: from %+v to %+v", before, after)
	}
}

// AttemptOf returns the current attempt of a replica according to the status, in the format of the attempt label.
func AttemptOf(status batchv1beta1.JobStatus, name string) string {
	all := fmt.Sprint(status.Attempt + status.Pauses + status.Evictions)
	for r := range status.EachReplica() {
		if r.Name == name && r.Attempt > 0 {
			return fmt.Sprintf("%s.%d", all, r.Attempt)
		}
	}
	return all
}

// isListed reports whether the status lists a replica with the given name.
func isListed(status batchv1beta1.JobStatus, name string) bool {
	return slices.ContainsFunc(status.Tasks, func(task batchv1beta1.TaskStatus) bool {
		return slices.ContainsFunc(task.Replicas, func(r batchv1beta1.ReplicaStatus) bool { return r.Name == name })
	})
}
