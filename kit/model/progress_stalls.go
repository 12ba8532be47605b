package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
)

// Stall describes whether the training of a job is stalled.
type Stall struct {
	// Pod is the name of the pod whose training made progress last. If no training has reported yet, this is a pod that
	// can report. Empty means that no pod can report, or that the job cannot be stalled now.
	Pod string
	// WhyNot is the reason why the training is not stalled. Empty means that the training is stalled.
	WhyNot string
	// IsKnown reports whether the controller can know whether the training is stalled.
	IsKnown bool
}

// StallOf describes whether the training of a job is stalled at a time. The parameter status is the status of the job
// before the controller reacts to the stall.
func StallOf(k Kind, o Objects, trainings Trainings, status batchv1beta1.JobStatus, now time.Time) Stall {
	job := o.Job()
	spec := k.SpecOf(job)
	running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning)
	if running == nil || !IsTrue(status, batchv1beta1.ConditionRunning) || status.Decided() {
		return Stall{WhyNot: "the job does not run"}
	}
	if spec.RunMode.Pausing() {
		return Stall{WhyNot: "the job must pause"}
	}
	workload, isForKueue := o.Workload(), job.GetLabels()[kueuev1beta2.LabelQueueName] != ""
	if isForKueue && (workload == nil || !isAdmitted(workload)) {
		return Stall{WhyNot: "the admission of the job is withdrawn"}
	}
	var last *Training
	var name string
	for _, pod := range o.Pods() {
		training := trainings.Training(pod)
		if AttemptLabel(pod) != AttemptOf(status, pod.Name) || IsRelabelled(pod) {
			continue
		}
		if endsAttempt(pod) && !isSpared(spec, status, pod.Name) {
			return Stall{WhyNot: "pod " + pod.Name + " has failed or is being deleted"}
		}
		if training == nil {
			continue
		}
		if last == nil || training.progress(now).After(last.progress(now)) {
			last, name = training, pod.Name
		}
	}
	if last == nil {
		return Stall{WhyNot: "no pod can report"}
	}
	if !last.Unreadable.IsZero() {
		now = last.Unreadable
	}
	since := running.LastTransitionTime.Time
	stall := Stall{Pod: name, IsKnown: !last.Forgotten}
	seconds := func(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
	limit, startLimit := seconds(spec.RunPolicy.ProgressDeadlineSeconds), seconds(spec.RunPolicy.StartupDeadlineSeconds)
	stopped := last.Stopped
	if !last.Started.IsZero() {
		stopped, limit = last.Started, startLimit
	}
	switch {
	case last.Step == 0 && startLimit == 0:
		stall.WhyNot, stall.IsKnown = "there is no deadline for the first report", false
	case last.Step == 0 && now.Before(since.Add(startLimit)):
		stall.WhyNot, stall.IsKnown = "the first report is not due", false
	case last.Step == 0:
	case limit == 0:
		stall.WhyNot = "there is no deadline for progress"
	case last.Done && last.Started.IsZero():
		stall.WhyNot = "the training is done"
	case last.Stopped.IsZero():
		stall.WhyNot = "the training makes progress"
	case now.Before(last.SilentUntil):
		stall.WhyNot = "the training has announced its silence"
	case now.Before(stopped.Add(limit)) || now.Before(since.Add(limit)):
		stall.WhyNot = "the deadline has not passed"
	}
	return stall
}

// endsAttempt reports whether a pod or its main container has failed, or the pod is being deleted.
func endsAttempt(pod *corev1.Pod) bool {
	return kubelet.HasFailed(pod) || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// isSpared reports whether the job goes on although the pod of a replica has ended or is being deleted. It goes on if
// the replica has succeeded, if the replica has failed and its peers do not restart with it, or if the job is elastic
// and trains without the replica.
func isSpared(spec framework.JobSpec, status batchv1beta1.JobStatus, name string) bool {
	for r := range status.EachReplica() {
		switch {
		case r.Name != name:
		case r.Phase == batchv1beta1.ReplicaPhaseSucceeded:
			return true
		case r.Phase == batchv1beta1.ReplicaPhaseFailed:
			return policy.Scope(spec) != batchv1beta1.RestartScopeJob
		default:
			return spec.Elastic != nil && r.Phase != batchv1beta1.ReplicaPhaseRunning
		}
	}
	return false
}

// RecordsStall reports whether a change of a status records a stall as a failure.
func RecordsStall(before, after batchv1beta1.JobStatus) bool {
	return len(after.Failures) > 0 && after.Failures[0].Reason == batchv1beta1.ReasonNoProgress &&
		!equality.Semantic.DeepEqual(before.Failures, after.Failures)
}

// checkStall checks a status write that reports a stall.
//
//   - A stall is reported only while the training of a pod of the current attempt is stalled. See StallOf.
//   - A stall is recorded as a failure only if the policy is Restart. The failure is of the pod whose training is
//     stalled. It counts once and begins one new attempt of all replicas, or it ends a job that has no restart left.
//   - If the policy is Restart, the condition Stalled becomes True only together with such a failure.
func checkStall(t Reporter, k Kind, now Objects, before, after batchv1beta1.JobStatus, by Writer) {
	t.Helper()
	records := RecordsStall(before, after)
	announces := IsTrue(after, batchv1beta1.ConditionStalled) && !IsTrue(before, batchv1beta1.ConditionStalled)
	if !records && !announces {
		return
	}
	stall := StallOf(k, now, by.Trainings, before, by.Now)
	if stall.WhyNot != "" {
		t.Errorf("the status reports a stall (as a failure: %t), but %s: %s", records, stall.WhyNot, now.Describe())
	}
	restarts := k.SpecOf(now.Job()).RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart
	if records != restarts {
		t.Errorf("a stall is recorded as a failure: %t, but the policy restarts the training: %t", records, restarts)
	}
	if !records {
		return
	}
	if replica := after.Failures[0].Replica; replica != stall.Pod {
		t.Errorf("the stall is of replica %s, but pod %s made progress last", replica, stall.Pod)
	}
	counted, attempts := after.BackoffCount-before.BackoffCount, after.Attempt-before.Attempt
	if after.Decided() {
		attempts, counted = attempts+1, counted+1
	}
	if counted != 1 || attempts != 1 || !after.Failures[0].Counted {
		t.Errorf("a stall counts %d times and begins %d attempts, want one: %+v", counted, attempts, after)
	}
}
