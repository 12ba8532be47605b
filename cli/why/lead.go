package why

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// lead returns the first sentence of the explanation, which describes the state of the job.
func (v view) lead() string {
	job := v.Job.Ref()
	replicas := v.howMany()
	since := func(conditionType string) string {
		if c := v.find(conditionType); c != nil {
			return v.ago(c.LastTransitionTime.Time)
		}
		return "a while ago"
	}
	switch {
	case v.Job.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s was deleted %s.", job, v.ago(v.Job.GetDeletionTimestamp().Time))
	case len(v.status.Conditions) == 0:
		return fmt.Sprintf("%s was created %s and has no status.", job, v.ago(v.Job.GetCreationTimestamp().Time))
	case v.status.Phase == batchv1beta1.JobPhaseSucceeded:
		return fmt.Sprintf("%s succeeded %s%s.", job, since(batchv1beta1.ConditionCompleted), v.took())
	case v.status.Phase == batchv1beta1.JobPhaseFailed:
		return fmt.Sprintf("%s failed %s%s.", job, since(batchv1beta1.ConditionFailed), v.took())
	case v.is(batchv1beta1.ConditionSuccessCriteriaMet):
		return fmt.Sprintf("%s has succeeded, and its other pods are ending.", job)
	case v.is(batchv1beta1.ConditionFailureTarget):
		return fmt.Sprintf("%s has failed, and its pods are ending.", job)
	case v.is(batchv1beta1.ConditionPaused) && v.Job.LacksCode():
		return fmt.Sprintf("%s was created %s and has no code yet.", job, v.ago(v.Job.GetCreationTimestamp().Time))
	case v.is(batchv1beta1.ConditionPaused):
		return fmt.Sprintf("%s was paused %s.", job, since(batchv1beta1.ConditionPaused))
	case v.status.Reason == batchv1beta1.ReasonPausing:
		return fmt.Sprintf("%s is being paused.", job)
	case v.status.Phase == batchv1beta1.JobPhaseRunning && v.is(batchv1beta1.ConditionStalled):
		return fmt.Sprintf("%s runs, but its training stalled %s.", job, since(batchv1beta1.ConditionStalled))
	case v.status.Phase == batchv1beta1.JobPhaseRunning:
		return fmt.Sprintf("%s has run for %s.", job, strings.TrimSuffix(since(batchv1beta1.ConditionRunning), " ago"))
	case v.isRestarting():
		return fmt.Sprintf("%s restarts after a failure%s: %s.", job, v.restarts(), replicas)
	case v.status.Phase == batchv1beta1.JobPhaseResuming && v.status.RunningTime != nil:
		return fmt.Sprintf("%s was resumed and waits: %s.", job, replicas)
	case v.status.RunningTime != nil:
		return fmt.Sprintf("%s has run before and waits: %s.", job, replicas)
	}
	return fmt.Sprintf("%s waits: %s.", job, replicas)
}

// howMany returns how many replicas run or have succeeded, as part of a sentence.
func (v view) howMany() string {
	running, all := v.counts()
	if all == 1 {
		return fmt.Sprintf("%d of 1 replica runs", running)
	}
	return fmt.Sprintf("%d of %d replicas run", running, all)
}

// restarts returns how many restarts have counted towards backoffLimit, as part of a sentence. The result is empty if
// none has counted, or if the limit is 0.
func (v view) restarts() string {
	limit := ptr.Deref(v.spec.RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)
	if v.status.BackoffCount == 0 || limit == 0 {
		return ""
	}
	return fmt.Sprintf(" (restart %d of at most %d)", v.status.BackoffCount, limit)
}

// took returns how long a finished job was active, for a sentence.
func (v view) took() string {
	if v.status.StartTime == nil || v.status.CompletionTime == nil {
		return ""
	}
	return fmt.Sprintf(", after %s", strings.TrimSuffix(view{Facts: Facts{Now: v.status.CompletionTime.Time}}.ago(
		v.status.StartTime.Time), " ago"))
}

// gaps returns the sentence about the objects that cannot be read.
func (v view) gaps() string {
	if len(v.NotRead) == 0 {
		return ""
	}
	return fmt.Sprintf("This leaves out %s, which you may not read.", listed(v.NotRead))
}

// listed joins words to a list for a sentence.
func listed(words []string) string { return jobs.Listed(words, "and") }
