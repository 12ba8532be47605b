package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
)

// endDelay is how long the write of a replica's end is delayed, so that it is batched with the ends of the peers. The
// delay is short: if the pod is deleted before the write, its end is lost, and the controller restarts the replica or
// all replicas.
const endDelay = time.Second

// StatusDelay returns how long the status write of a decision can be delayed to batch it with later changes. The delay
// is at most the given interval. Only replica changes and the first status can be delayed.
func StatusDelay(job view.Job, d Decision, interval time.Duration) time.Duration {
	was := job.Status
	switch {
	case len(d.Restarts) > 0:
		return 0
	case !isDelayableFirstStatus(job.Spec, was, d) && !onlyFollowsReplicas(was, d.Status):
		return 0
	case !was.Finished() && countEnded(d.Status) > countEnded(was):
		return min(endDelay, interval)
	default:
		return interval
	}
}

// ChangesStatus reports whether a decision changes the status of a job.
func ChangesStatus(job view.Job, d Decision) bool {
	return !status.IsSame(job.Status, d.Status)
}

// countEnded counts the replicas that have ended.
func countEnded(status batchv1beta1.JobStatus) int {
	n := 0
	for replica := range status.EachReplica() {
		if view.HasEnded(replica.Phase) {
			n++
		}
	}
	return n
}

// isDelayableFirstStatus reports whether the decision has the first status of a job, and the write of this status can
// be delayed. It can be delayed only if the replicas will run without help. Such a job usually runs soon, and the
// first write then reports that it runs. Until then, the API server shows the default phase Pending. The result is
// false if there are events, or if the status has a fact that must be written immediately: when the deadline starts
// to count, how many replicas an elastic job has, which replicas a gang waits for, or that a replica failed.
func isDelayableFirstStatus(spec framework.JobSpec, was batchv1beta1.JobStatus, d Decision) bool {
	hasFailed := meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	return was.ObservedGeneration == 0 && len(d.Events) == 0 && !hasFailed &&
		d.Status.Phase == batchv1beta1.JobPhasePending && status.StartsByItself(d.Status.Reason) &&
		spec.RunPolicy.ActiveDeadlineSeconds == nil && spec.Scheduler == nil &&
		spec.Elastic == nil
}

// onlyFollowsReplicas reports whether two statuses list the same replicas, and differ only in fields that follow from
// the states of the replicas (see withoutReplicas).
func onlyFollowsReplicas(a, b batchv1beta1.JobStatus) bool {
	return slices.EqualFunc(a.Tasks, b.Tasks, hasSameReplicas) &&
		equality.Semantic.DeepEqual(withoutReplicas(a), withoutReplicas(b))
}

// hasSameReplicas reports whether two tasks list the same replicas, whatever their states.
func hasSameReplicas(a, b batchv1beta1.TaskStatus) bool {
	isSame := func(a, b batchv1beta1.ReplicaStatus) bool { return a.Name == b.Name }
	return a.Type == b.Type && slices.EqualFunc(a.Replicas, b.Replicas, isSame)
}

// withoutReplicas returns a status without the fields that follow from the states of the replicas. It also removes
// the defaults, because they are written together with any other change and need no write of their own. It replaces
// the reason Creating by Pending, because these reasons differ only in whether the replicas have pods yet.
func withoutReplicas(s batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	withoutPods := func(reason string) string {
		if reason == batchv1beta1.ReasonCreating {
			return batchv1beta1.ReasonPending
		}
		return reason
	}
	s.Tasks, s.Aggregate, s.Ready, s.Replicas, s.Reason = nil, nil, "", 0, withoutPods(s.Reason)
	s.Defaults = nil
	conditions := make([]metav1.Condition, len(s.Conditions))
	copy(conditions, s.Conditions)
	for i := range conditions {
		conditions[i].Message = ""
		conditions[i].Reason = withoutPods(conditions[i].Reason)
	}
	s.Conditions = conditions
	return s
}
