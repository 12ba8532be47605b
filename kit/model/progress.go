package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/progress"
)

// ChangesOnlyReadings reports whether two statuses differ only in the progress of the training and in the restarts in
// place.
func ChangesOnlyReadings(before, after batchv1beta1.JobStatus) bool {
	isSame := equality.Semantic.DeepEqual(before, after)
	before.Progress, before.RestartsInPlace = after.Progress, after.RestartsInPlace
	return !isSame && equality.Semantic.DeepEqual(before, after)
}

// CheckProgress checks the progress in the status of a job at rest.
//
//   - If the policy is Restart, no training is stalled.
//   - If the policy is Notify, the condition Stalled is True if the training is stalled, and not True if the
//     controller knows that the training is not stalled.
//   - The condition is not True while the replicas of the job are stopped. When the job has finished, the condition is
//     True only if a stall ended the job.
//   - While the job runs, the status shows the last report, unless the controller has lost its reading. If the job
//     has succeeded, the status shows the last report of the leader.
func CheckProgress(k Kind, o Objects, trainings Trainings, now time.Time) (wrong []string) {
	job := o.Job()
	spec, status := k.SpecOf(job), *job.JobStatus()
	if !spec.ReportsProgress {
		return nil
	}
	isStalled := IsTrue(status, batchv1beta1.ConditionStalled)
	switch stall := StallOf(k, o, trainings, status, now); {
	case status.Finished():
		endedBy := status.Reason == batchv1beta1.ReasonBackoffLimitExceeded && len(status.Failures) > 0 &&
			status.Failures[0].Reason == batchv1beta1.ReasonNoProgress
		if isStalled != endedBy {
			wrong = append(wrong, "the job has finished, but its condition Stalled does not show whether a stall ended it")
		}
		for _, pod := range o.Pods() {
			last, isLeader := lastStep(pod), pod.Labels[batchv1beta1.LabelReplicaIndex] == "0"
			if isLeader && last > 0 && status.Phase == batchv1beta1.JobPhaseSucceeded &&
				(status.Progress == nil || ptr.Deref(status.Progress.Step, 0) != last) {
				wrong = append(wrong, "the status does not show the report with which the leader ended")
			}
		}
		return wrong
	case status.StartTime == nil && isStalled:
		wrong = append(wrong, "the job is stopped, but its condition Stalled is True")
	case !stall.IsKnown:
	case stall.WhyNot == "" && spec.RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart:
		wrong = append(wrong, "the training is stalled, but it is not restarted")
	case isStalled && stall.WhyNot != "":
		wrong = append(wrong, "the condition Stalled is True, but "+stall.WhyNot)
	case !isStalled && stall.WhyNot == "":
		wrong = append(wrong, "the training is stalled, but the condition Stalled is not True")
	}
	for _, pod := range o.Pods() {
		training := trainings.Training(pod)
		if training == nil || training.Step == 0 || !IsTrue(status, batchv1beta1.ConditionRunning) || training.Forgotten ||
			IsRelabelled(pod) {
			continue
		}
		if shown := status.Progress; shown == nil || ptr.Deref(shown.Step, 0) != training.Step || shown.Replica != pod.Name ||
			shown.LastReportTime.Sub(training.Reported).Abs() > tolerance {
			wrong = append(wrong, "the status does not show the last report of "+pod.Name)
		}
	}
	return wrong
}

// lastStep returns the step in the termination message of a pod's progress sidecar. 0 means that the message has no
// step, for example because the sidecar still runs.
func lastStep(pod *corev1.Pod) int64 {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == framework.ProgressContainer && s.State.Terminated != nil {
			if state, err := progress.ParseState([]byte(s.State.Terminated.Message)); err == nil {
				return ptr.Deref(state.Step, 0)
			}
		}
	}
	return 0
}

// tolerance is the maximum difference between the time of a report in the status and the actual time of the report.
const tolerance = 3 * time.Second

// Reporting returns the shape of a job whose training reports its progress.
func Reporting(s Shape) Shape {
	s.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
	return s
}

// Stalls sets the policy for stalled trainings, and the deadlines in seconds for progress and for the first report. A
// deadline of 0 means none.
func Stalls(what batchv1beta1.ProgressPolicy, progressDeadline, startupDeadline int64) Policy {
	return func(p *batchv1beta1.RunPolicy) {
		p.ProgressPolicy = what
		if progressDeadline > 0 {
			p.ProgressDeadlineSeconds = &progressDeadline
		}
		if startupDeadline > 0 {
			p.StartupDeadlineSeconds = &startupDeadline
		}
	}
}
