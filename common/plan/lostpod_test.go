package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// endedBy returns an option that gives the pod the condition by which Kubernetes announces a disruption.
func endedBy(reason string) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
}

// The cases are the rows of docs/train/jobs.md#a-pod-that-is-lost. Each case is checked with every restart policy. A
// deletion is a request to replace the pod, whatever the restart policy. A disruption is an end of the replica, so
// the restart policy applies.
func TestLostPod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// seen is the pod of the replica. Nil means that the pod is gone.
		seen *corev1.Pod
		// wantReason is the reason of the failure.
		wantReason string
		// endsNever reports whether a job with restart policy Never fails. Otherwise the replica is replaced.
		endsNever bool
	}{
		"a deletion": {pod("job-worker-1", running, deleting), batchv1beta1.ReasonDeleted, false},
		"a pod that is gone before the controller sees why": {nil, batchv1beta1.ReasonDeleted, false},
		"an eviction through the API, as by a drain": {
			pod("job-worker-1", running, endedBy("EvictionByEvictionAPI"), deleting), batchv1beta1.ReasonEvicted, true,
		},
		"a preemption": {
			pod("job-worker-1", running, endedBy("PreemptionByScheduler"), deleting), batchv1beta1.ReasonPreempted, true,
		},
		"the loss of the node": {
			pod("job-worker-1", running, endedBy("DeletionByTaintManager"), deleting), batchv1beta1.ReasonNodeLost, true,
		},
		"the removal of the node": {
			pod("job-worker-1", running, endedBy("DeletionByPodGC"), deleting), batchv1beta1.ReasonNodeLost, true,
		},
		"a shutdown of the node": {
			pod("job-worker-1", exited(143), endedBy("TerminationByKubelet")), batchv1beta1.ReasonNodeShutdown, true,
		},
	} {
		for _, policy := range []batchv1beta1.RestartPolicy{
			batchv1beta1.RestartPolicyNever, batchv1beta1.RestartPolicyOnFailure, batchv1beta1.RestartPolicyExitCode,
			batchv1beta1.RestartPolicyAlways,
		} {
			t.Run(name+" with restart policy "+string(policy), func(t *testing.T) {
				t.Parallel()
				j := job(restarting(role("worker", 2), policy)).BackoffLimit(0).Saw(time.Minute, runningPods()...)
				seen := []*corev1.Pod{pod("job-worker-0", running)}
				if tc.seen != nil {
					seen = append(seen, tc.seen)
				}
				d := j.Sees(seen...)
				diff(t, "reason of the failure", tc.wantReason, d.Status.Failures[0].Reason)
				diff(t, "whether it counts", false, d.Status.Failures[0].Counted)
				wantEnd, wantRestarts := "", int32(1)
				if tc.endsNever && policy == batchv1beta1.RestartPolicyNever {
					wantEnd, wantRestarts = batchv1beta1.ReasonPermanentFailure, 0
				}
				diff(t, "reason of FailureTarget", wantEnd, conditionOf(d, batchv1beta1.ConditionFailureTarget).Reason)
				diff(t, "restarts of all replicas", wantRestarts, d.Status.Attempt)
				diff(t, "restarts that do not count", wantRestarts, d.Status.Disruptions)
			})
		}
	}
}

// The pod of a lost node never ends by itself. The controller deletes it by force after NodeLostDelay, and the job is
// requeued for that time. This holds for an active job and for a finished one.
func TestPodOfALostNodeIsDeletedByForce(t *testing.T) {
	t.Parallel()
	lost := pod("job-worker-1", running, onLostNode, deleting)
	due := lost.DeletionTimestamp.Sub(now) + time.Minute
	active := job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, pod("job-worker-0", running),
		pod("job-worker-1", running))
	ended := job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, pod("job-worker-0", exited(0)),
		pod("job-worker-1", running))
	for name, j := range map[string]*jobBuilder{
		"the pod of an active job is deleted by force":  active,
		"the pod of a finished job is deleted by force": ended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j.NodeLostDelay = time.Minute
			early := j.Sees(pod("job-worker-0", running), lost)
			diff(t, "deletions by force before they are due", []string(nil), names(early.ForceDeletes))
			diff(t, "requeue delay", due, summarize(early).RequeueIn)

			late := plan.Decide(j.Job, seeing(pod("job-worker-0", running), lost), now.Add(due))
			diff(t, "deletions by force", []string{"job-worker-1"}, names(late.ForceDeletes))
		})
	}
}
