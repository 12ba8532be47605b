package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// reporter is told what is wrong.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkLaws checks what no write may do, whatever went wrong before. The objects are those after the write.
func checkLaws(t reporter, k kind, now objects, before, after client.Object) {
	t.Helper()
	if pod, ok := after.(*corev1.Pod); ok && before == nil && owned(pod) {
		checkCreation(t, k, now, pod)
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
	becomesTrue := func(condition string) bool { return isTrue(status, condition) && !isTrue(*old.JobStatus(), condition) }
	if becomesTrue(batchv1beta1.ConditionPaused) && len(now.pods()) > 0 {
		t.Errorf("the job is said to be paused, but there are pods: %s", now.describe())
	}
	if a := status.Aggregate; becomesTrue(batchv1beta1.ConditionRunning) && k.specOf(job).Elastic == nil && a.Creating+a.Pending+a.Deleted+a.Unknown > 0 {
		t.Errorf("the job is said to run, but its aggregate is %+v", *a)
	}
}

// checkCreation checks that a pod may be created.
func checkCreation(t reporter, k kind, now objects, pod *corev1.Pod) {
	t.Helper()
	job := now.job()
	if job == nil {
		return // it was deleted just now, and the pod will be
	}
	status := *job.JobStatus()
	if status.Finished() {
		t.Errorf("pod %s is created for a job that is %s", pod.Name, status.Phase)
	}
	spec := k.specOf(job)
	if spec.RunMode.Pausing() {
		t.Errorf("pod %s is created for a job that is to be paused", pod.Name)
	}
	// The first status of these waits for their replicas to run.
	firstMayWait := spec.Elastic == nil && spec.Scheduler == nil && spec.RunPolicy.ActiveDeadlineSeconds == nil
	if !isListed(status, pod.Name) && (status.ObservedGeneration > 0 || !firstMayWait) {
		t.Errorf("pod %s is created, but its replica is not in the status", pod.Name)
	}
	if want := attemptOf(status, pod.Name); attemptLabel(pod) != want {
		t.Errorf("pod %s is created for attempt %s, but the job is at %s", pod.Name, attemptLabel(pod), want)
	}
	if spec.Scheduler != nil {
		checkMembership(t, now, job, pod)
	}
	for _, other := range now.pods() {
		if of, _, _ := strings.Cut(attemptLabel(other), "."); of != fmt.Sprint(status.Attempt+status.Pauses) {
			t.Errorf("pod %s is created while %s is there, of an earlier attempt of all replicas, which it could meet: %s",
				pod.Name, other.Name, now.describe())
		}
		if before := other.Annotations[membersAnnotation]; spec.Elastic == nil && before != pod.Annotations[membersAnnotation] {
			t.Errorf("pod %s is created in a job of %s replicas, but %s was when they were %s",
				pod.Name, pod.Annotations[membersAnnotation], other.Name, before)
		}
	}
}

// checkMembership checks that a pod is created in the job's own PodGroup, which may have pods as it is now, and does not wait there for
// replicas that are done.
func checkMembership(t reporter, now objects, job framework.Job, pod *corev1.Pod) {
	t.Helper()
	group := now.podGroup()
	if group == nil || !metav1.IsControlledBy(group, job) || group.DeletionTimestamp != nil ||
		group.Status.ObservedGeneration != group.Generation ||
		!meta.IsStatusConditionTrue(group.Status.Conditions, schedulerv1beta1.ConditionAdmitted) {
		t.Errorf("pod %s is created while its job has no PodGroup that is admitted as it is: %+v", pod.Name, group)
		return
	}
	if pod.Labels[schedulerv1beta1.LabelGroupName] != group.Name || pod.Spec.SchedulerName != schedulerv1beta1.SchedulerName {
		t.Errorf("pod %s is no member of the PodGroup", pod.Name)
	}
	left := int32(0)
	for _, task := range job.JobStatus().Tasks {
		for _, r := range task.Replicas {
			if r.Phase != batchv1beta1.ReplicaPhaseSucceeded && r.Phase != batchv1beta1.ReplicaPhaseFailed {
				left++
			}
		}
	}
	if group.Spec.MinMember > left {
		t.Errorf("pod %s waits for %d pods, but no more than %d replicas are not done: %s", pod.Name, group.Spec.MinMember, left, now.describe())
	}
}

// checkGroupCreation checks that a PodGroup may be created: for a job that has not finished and is not to be paused, and before its pods
// unless somebody deleted an earlier one.
func checkGroupCreation(t reporter, k kind, now objects) {
	t.Helper()
	job := now.job()
	switch {
	case job == nil: // it was deleted just now
	case k.specOf(job).Scheduler == nil:
		t.Errorf("a PodGroup is created for a job in no queue")
	case job.JobStatus().Finished() || k.specOf(job).RunMode.Pausing():
		t.Errorf("a PodGroup is created for a job that is %s, and paused: %t", job.JobStatus().Phase, k.specOf(job).RunMode.Pausing())
	}
}

// checkDeletion checks that the controller deletes no pod that does its work, or that a finished job has to keep, with its logs.
func checkDeletion(t reporter, k kind, job framework.Job, before, after client.Object) {
	t.Helper()
	pod, ok := before.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp != nil || after != nil && after.GetDeletionTimestamp() == nil || job == nil {
		return
	}
	switch status := *job.JobStatus(); {
	case status.Finished():
		if !policy.CleansUp(k.specOf(job).RunPolicy, pod) {
			t.Errorf("the clean-up deletes pod %s, which is %s", pod.Name, pod.Status.Phase)
		}
	case isListed(status, pod.Name) && attemptLabel(pod) == attemptOf(status, pod.Name):
		t.Errorf("the controller deletes pod %s, which is of the current attempt", pod.Name)
	}
}

// checkTensorBoardCreation checks that a TensorBoard may be created: for a job that wants it and has not finished, and whose status
// says so, so that it is found again whatever happens next.
func checkTensorBoardCreation(t reporter, now objects) {
	t.Helper()
	job, ok := now.job().(framework.TensorBoardJob)
	switch {
	case !ok: // it was deleted just now
	case job.JobStatus().Finished():
		t.Errorf("a TensorBoard is created for a job that is %s", job.JobStatus().Phase)
	case job.TensorBoardSpec() == nil:
		t.Errorf("a TensorBoard is created for a job that wants none")
	case job.TensorBoardStatus() == nil:
		t.Errorf("a TensorBoard is created, but it is not in the status")
	}
}

func isTrue(status batchv1beta1.JobStatus, condition string) bool {
	return meta.IsStatusConditionTrue(status.Conditions, condition)
}

func attemptLabel(pod *corev1.Pod) string { return pod.Labels[batchv1beta1.LabelAttempt] }

func checkStatus(t reporter, before, after batchv1beta1.JobStatus) {
	t.Helper()
	if after.BackoffCount < before.BackoffCount || after.Attempt < before.Attempt || after.Pauses < before.Pauses {
		t.Errorf("backoffCount, attempt or pauses falls from %d, %d, %d to %d, %d, %d", before.BackoffCount, before.Attempt,
			before.Pauses, after.BackoffCount, after.Attempt, after.Pauses)
	}
	if after.ObservedGeneration > 0 && (after.Phase == "" || after.Reason == "" ||
		meta.FindStatusCondition(after.Conditions, batchv1beta1.ConditionInitialized) == nil ||
		meta.FindStatusCondition(after.Conditions, batchv1beta1.ConditionRunning) == nil) {
		t.Errorf("a status says neither whether the job is accepted nor whether it runs: %+v", after)
	}
	if a := after.Aggregate; a != nil {
		replicas := 0
		for _, task := range after.Tasks {
			replicas += len(task.Replicas)
		}
		if sum := a.Creating + a.Pending + a.Running + a.Succeeded + a.Failed + a.Unknown + a.Deleted; int(sum) != replicas {
			t.Errorf("the aggregate of %d replicas sums up to %d", replicas, sum)
		}
	}
	if !before.Finished() {
		return
	}
	for _, status := range []*batchv1beta1.JobStatus{&before, &after} {
		status.Tasks, status.Aggregate, status.Ready, status.Replicas, status.ObservedGeneration = nil, nil, "", 0, 0
	}
	if diff := gocmp.Diff(before, after); diff != "" {
		t.Errorf("the status of a finished job changes (-before +after):\n%s", diff)
	}
}

// attemptOf returns the attempt that the status says a replica is at, as the label of its pod has it.
func attemptOf(status batchv1beta1.JobStatus, name string) string {
	all := fmt.Sprint(status.Attempt + status.Pauses)
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			if r.Name == name && r.Attempt > 0 {
				return fmt.Sprintf("%s.%d", all, r.Attempt)
			}
		}
	}
	return all
}

// isListed says that the status has a replica of the name.
func isListed(status batchv1beta1.JobStatus, name string) bool {
	return slices.ContainsFunc(status.Tasks, func(task batchv1beta1.TaskStatus) bool {
		return slices.ContainsFunc(task.Replicas, func(r batchv1beta1.ReplicaStatus) bool { return r.Name == name })
	})
}

// remains is all that is left when a world has come to rest, in a form that can be compared with another's.
type remains struct {
	// Status of the job, nil if it is gone. UIDs only say whether they are those of the pods that are there.
	Status *batchv1beta1.JobStatus
	// Pods, Services, TensorBoards and PodGroups by name; of pods also the attempt and the phase, of TensorBoards the image, of
	// PodGroups how many pods they need.
	Pods, Services, TensorBoards, PodGroups []string
	// TensorBoard is what the status says of the job's. Its UID only says whether it is that of the one that is there.
	TensorBoard *batchv1beta1.DependentStatus
}

func (o objects) remains() remains {
	var r remains
	uids := map[string]bool{}
	for _, pod := range list[*corev1.Pod](o) {
		uids[string(pod.UID)] = true
		r.Pods = append(r.Pods, fmt.Sprintf("%s attempt %s %s", pod.Name, pod.Labels[batchv1beta1.LabelAttempt], pod.Status.Phase))
	}
	for _, service := range list[*corev1.Service](o) {
		r.Services = append(r.Services, service.Name)
	}
	for _, tensorBoard := range list[*tensorboardv1beta1.TensorBoard](o) {
		uids[string(tensorBoard.UID)] = true
		r.TensorBoards = append(r.TensorBoards, tensorBoard.Name+" "+tensorBoard.Spec.Image)
	}
	for _, group := range list[*schedulerv1beta1.PodGroup](o) {
		r.PodGroups = append(r.PodGroups, fmt.Sprintf("%s needs %d", group.Name, group.Spec.MinMember))
	}
	job := o.job()
	if job == nil {
		return r
	}
	if r.TensorBoard = tensorBoardStatus(job).DeepCopy(); r.TensorBoard != nil {
		r.TensorBoard.Action = "" // to try in vain to create what a cache lacks is to do something
		if r.TensorBoard.Dependent != nil {
			r.TensorBoard.Dependent.UID = types.UID(fmt.Sprintf("present: %t", uids[string(r.TensorBoard.Dependent.UID)]))
		}
	}
	r.Status = job.JobStatus().DeepCopy()
	for i := range r.Status.Tasks {
		for j := range r.Status.Tasks[i].Replicas {
			uid := &r.Status.Tasks[i].Replicas[j].UID
			switch {
			case uids[string(*uid)]:
				*uid = "present"
			case *uid != "":
				*uid = "past"
			}
		}
	}
	return r
}

// tolerance is how much later a thing may happen if something went wrong.
const tolerance = 5 * time.Second

// sameTime compares times with tolerance.
func sameTime(tolerance time.Duration) gocmp.Options {
	return gocmp.Options{
		gocmp.Comparer(func(a, b metav1.Time) bool { return a.Sub(b.Time).Abs() <= tolerance }),
		gocmp.Comparer(func(a, b *metav1.Time) bool {
			if a == nil || b == nil {
				return a == b
			}
			return a.Sub(b.Time).Abs() <= tolerance
		}),
	}
}

// describe says in few lines how the job and its pods stand.
func (o objects) describe() string {
	r := o.remains()
	phase := "no job"
	if r.Status != nil {
		phase = fmt.Sprintf("the job is %s (%s), backoffCount %d", r.Status.Phase, r.Status.Reason, r.Status.BackoffCount)
	}
	return fmt.Sprintf("%s; pods: %s", phase, strings.Join(r.Pods, ", "))
}
