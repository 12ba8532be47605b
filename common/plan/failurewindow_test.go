package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/trainlog"
)

// The kubelet of a peer can report a failure earlier than the kubelet of the replica that failed first. So the root
// cause is determined only after all kubelets have had time to report.
func TestRootCauseOfAFailureInACollective(t *testing.T) {
	t.Parallel()
	type reports []*corev1.Pod
	for name, tc := range map[string]struct {
		policy batchv1beta1.RestartPolicy
		// pods are the pods that the controller observes now. The failure window is 2 s.
		pods reports
		// wantRequeueIn is the time until the job is requeued.
		wantRequeueIn time.Duration
		wantFailures  []string
		wantPhase     batchv1beta1.JobPhase
		wantDecided   bool
	}{
		"a failure is not judged yet while other replicas run": {
			pods:          reports{pod("job-worker-0", exited(1)), pod("job-worker-1", running), pod("job-worker-2", running)},
			wantRequeueIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"a failure is not judged yet, although it is long ago by the clock of its node": {
			pods: reports{
				pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running), pod("job-worker-2", running),
			},
			wantRequeueIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"the earliest failure is the root cause if all replicas have ended": {
			pods: reports{
				pod("job-worker-0", exited(1)), pod("job-worker-1", exitedAgo(1, time.Second)), pod("job-worker-2", exited(1)),
			},
			wantFailures: []string{"job-worker-1: exit code 1, counted"}, wantPhase: batchv1beta1.JobPhasePending,
		},
		"a killed replica is the root cause if all replicas failed in the same second": {
			pods: reports{
				pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1)), pod("job-worker-2", exited(137)),
			},
			wantFailures: []string{"job-worker-2: exit code 137, counted"}, wantPhase: batchv1beta1.JobPhasePending,
		},
		"the exit code of the root cause decides, not that of a peer": {
			policy: batchv1beta1.RestartPolicyExitCode,
			pods: reports{
				pod("job-worker-0", exited(1)), pod("job-worker-1", exited(137)), pod("job-worker-2", exited(1)),
			},
			wantFailures: []string{"job-worker-1: exit code 137, counted"}, wantPhase: batchv1beta1.JobPhasePending,
		},
		"a permanent exit code is not final while a peer might have caused it": {
			policy:        batchv1beta1.RestartPolicyExitCode,
			pods:          reports{pod("job-worker-0", exited(1)), pod("job-worker-1", running), pod("job-worker-2", exited(1))},
			wantRequeueIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"a deleted replica is the root cause without a wait for failures of peers": {
			pods: reports{
				pod("job-worker-0", exited(1)), pod("job-worker-1", running, deleting), pod("job-worker-2", running),
			},
			wantFailures: []string{"job-worker-1: no exit code, ignored"}, wantPhase: batchv1beta1.JobPhasePending,
			wantRequeueIn: untilOverdue,
		},
		"a failure that the supervisors of all replicas saw first is judged immediately": {
			pods: reports{
				pod("job-worker-0", running), pod("job-worker-1", exited(1), printed("supervise: "+trainlog.FirstReport)),
				pod("job-worker-2", running),
			},
			wantFailures: []string{"job-worker-1: exit code 1, counted"}, wantPhase: batchv1beta1.JobPhasePending,
		},
		"a failure that the supervisors saw first is not judged yet if it only lost its peers": {
			pods: reports{
				pod("job-worker-0", running), pod("job-worker-1", exited(1), printed(
					captured(t, "plain1-exception-0")+"\nsupervise: "+trainlog.FirstReport)), pod("job-worker-2", running),
			},
			wantRequeueIn: 10 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"the success of the leader is decided immediately": {
			pods:      reports{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)), pod("job-worker-2", running)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantDecided: true, wantRequeueIn: 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workers := role("worker", 3)
			if tc.policy != "" {
				workers = restarting(workers, tc.policy)
			}
			j := job(workers).GivePeers(30*time.Second).Saw(time.Minute,
				pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running))
			j.Window(2 * time.Second)
			d := j.Sees(tc.pods...)
			got := summarize(d)
			diff(t, "failures", tc.wantFailures, got.Failures)
			diff(t, "phase", tc.wantPhase, got.Phase)
			diff(t, "requeue delay", tc.wantRequeueIn, got.RequeueIn)
			diff(t, "whether the end is decided", tc.wantDecided, d.Status.Decided())
			if tc.wantPhase == batchv1beta1.JobPhaseRunning && !tc.wantDecided {
				diff(t, "ReplicaFailure, before anything is decided", metav1.ConditionTrue,
					conditionOf(d, batchv1beta1.ConditionReplicaFailure).Status)
				diff(t, "deletions, before anything is decided", []string(nil), got.Deletes)
			}
		})
	}
}

// Each failure has its own window, which begins at the last transition of the condition ReplicaFailure. If the
// condition is still True because of an earlier failure, the controller sets the transition time of the condition
// again. If the transition time is in the future, the controller does not wait: another controller, whose clock was
// ahead, has set this time.
func TestEveryFailureHasItsWindow(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 3)).Saw(2*time.Hour, pod("job-worker-0", running), pod("job-worker-1", running),
		pod("job-worker-2", running)).
		Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exited(137)), pod("job-worker-2", running))
	j.Window(2 * time.Second)
	seen := func() metav1.Time {
		return meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionReplicaFailure).LastTransitionTime
	}
	diff(t, "when the first failure was seen", ago(time.Hour), seen())
	again := []*corev1.Pod{
		pod("job-worker-0", again(1)), pod("job-worker-1", exited(137), again(1)), pod("job-worker-2", running, again(1)),
	}
	d := j.Sees(again...)
	diff(t, "requeue delay after the second failure, before all replicas run again", 2*time.Second, summarize(d).RequeueIn)

	j.Status = d.Status
	diff(t, "when the second failure was seen", ago(0), seen())
	meta.FindStatusCondition(j.Status.Conditions,
		batchv1beta1.ConditionReplicaFailure).LastTransitionTime = ago(2 * time.Second)
	diff(t, "backoffCount after its window", int32(2), j.Sees(again...).Status.BackoffCount)
	diff(t, "disruptions", int32(0), j.Sees(again...).Status.Disruptions)
	meta.FindStatusCondition(j.Status.Conditions,
		batchv1beta1.ConditionReplicaFailure).LastTransitionTime = ago(-10 * time.Minute)
	diff(t, "backoffCount after a failure that was seen in the future", int32(2), j.Sees(again...).Status.BackoffCount)
	meta.RemoveStatusCondition(&j.Status.Conditions, batchv1beta1.ConditionReplicaFailure)
	diff(t, "requeue delay if it is unknown when the failure was seen", 2*time.Second,
		summarize(j.Sees(again...)).RequeueIn)
}

// The controller writes nothing for peers that fail during the wait, so many failures cost one write.
func TestPeersThatFailDoNotExtendTheWaitForTheRootCause(t *testing.T) {
	t.Parallel()
	failed, next := pod("job-worker-1", exitedAgo(137, 5*time.Second)), pod("job-worker-2", exitedAgo(1, 5*time.Second))
	runs := func(name string) *corev1.Pod { return pod(name, running) }
	j := job(role("worker", 4)).Window(10*time.Second).
		Saw(time.Minute, runs("job-worker-0"), runs("job-worker-1"), runs("job-worker-2"), runs("job-worker-3")).
		Saw(5*time.Second, runs("job-worker-0"), failed, next, runs("job-worker-3"))
	diff(t, "message of ReplicaFailure", "replica job-worker-1 failed with exit code 137 (Error)",
		conditionOf(decided(j.Status), batchv1beta1.ConditionReplicaFailure).Message)
	d := j.Sees(runs("job-worker-0"), failed, next, pod("job-worker-3", exited(1)))
	diff(t, "status", j.Status, d.Status)
	diff(t, "requeue delay", 5*time.Second, summarize(d).RequeueIn)
}

// A replica that stays failed does not affect a later failure that restarts all replicas.
func TestFailureHasItsWindowWhileAReplicaStaysFailed(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	failed := pod("job-worker-1", exitedAgo(1, time.Minute)) // the policy ExitCode does not restart it
	j := job(restarting(role("worker", 3), batchv1beta1.RestartPolicyExitCode))
	j.Elastic(1, 3).Spec.DefaultRestartScope = scopeRendezvous
	j.Window(2*time.Second).Saw(time.Hour, worker0, pod("job-worker-1", running), worker2).
		Saw(time.Minute, worker0, failed, worker2)
	d := j.Sees(pod("job-worker-0", exited(137)), failed, worker2)
	diff(t, "requeue delay", 2*time.Second, summarize(d).RequeueIn)
	diff(t, "attempt of the job", int32(0), d.Status.Attempt)
}
