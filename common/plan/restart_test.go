package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

const (
	scopeJob     = batchv1beta1.RestartScopeJob
	scopeReplica = batchv1beta1.RestartScopeReplica
)

// restartsOf returns the restart count of each role.
func restartsOf(d plan.Decision) map[string]int32 {
	restarts := map[string]int32{}
	for _, task := range d.Status.Tasks {
		if task.RestartCount > 0 {
			restarts[task.Type] = task.RestartCount
		}
	}
	return restarts
}

// With restart scope Job, one failure restarts every replica and counts once.
func TestRestartOfTheJob(t *testing.T) {
	t.Parallel()
	running2 := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job          *jobBuilder
		pods         []*corev1.Pod
		want         summary
		wantRestarts map[string]int32
	}{
		"a failure deletes all pods, including the failed one": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: summary{
				Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-1: exit code 1, counted"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"failures that are seen together count once": {
			job: job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(2, time.Second)), pod("job-worker-1", exitedAgo(1, 3*time.Second)),
			},
			want: summary{
				Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-1: exit code 1, counted"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"a disrupted peer is the root cause, which does not count": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(143), disrupted)},
			want: summary{
				Attempt:  1,
				Failures: []string{"job-worker-1: exit code 143, ignored"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"a deleted peer is the root cause, which does not count": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", running, deleting)},
			want: summary{
				Attempt:  1,
				Failures: []string{"job-worker-1: no exit code, ignored"},
				Deletes:  []string{"job-worker-0"},
				WakeIn:   untilOverdue,
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"replicas that succeeded are restarted too": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(0))),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(0))},
			want: summary{
				Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-0: exit code 1, counted"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"the replicas of every role restart": {
			job: job(role("master", 1), role("worker", 2)).
				Saw(time.Minute, pod("job-master-0", running), pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-master-0", running), pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: summary{
				Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-1: exit code 1, counted"},
				Deletes:  []string{"job-master-0", "job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"master": 1, "worker": 2},
		},
		"a pod that is already being deleted is not deleted again": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, deleting)},
			want: summary{
				Attempt:  1,
				Failures: []string{"job-worker-1: no exit code, ignored"},
				Deletes:  []string{"job-worker-0"},
				WakeIn:   untilOverdue,
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"a pod that failed while it was being deleted is not counted": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(137), deleting)},
			want: summary{
				Attempt:  1,
				Failures: []string{"job-worker-1: no exit code, ignored"},
				Deletes:  []string{"job-worker-0"},
				WakeIn:   untilOverdue,
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"the failure of an init container counts": {
			job: job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0")),
			pods: []*corev1.Pod{pod("job-worker-0", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 6, FinishedAt: ago(0)},
				}}}
			})},
			want: summary{
				Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-0: exit code 6, counted"},
				Deletes:  []string{"job-worker-0"},
			},
			wantRestarts: map[string]int32{"worker": 1},
		},
		"a rejection by the kubelet restarts the job and does not count": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0"), pod("job-worker-1")),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", rejected)},
			want: summary{
				Attempt:  1,
				Failures: []string{"job-worker-1: no exit code, ignored"},
				Deletes:  []string{"job-worker-0", "job-worker-1"},
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.Phase, tc.want.Reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonRestarting
			d := tc.job.Sees(tc.pods...)
			diff(t, "decision", tc.want, summarize(d))
			diff(t, "restartCount", tc.wantRestarts, restartsOf(d))
			if len(d.Restarts) == 0 {
				t.Error("the decision has no restart")
			}
		})
	}
}

// After a restart has been counted, only the deletion of the earlier pods delays the new pods.
func TestReplacementOfPodsAfterARestart(t *testing.T) {
	t.Parallel()
	failed := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))}
	restarted := func() *jobBuilder {
		return job(role("worker", 2)).Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Minute, failed...)
	}
	for name, tc := range map[string]struct {
		pods        []*corev1.Pod
		wantDeletes []string
		wantCreates []string
		wantWakeIn  time.Duration
	}{
		"pods whose deletion did not happen are deleted": {
			pods:        failed,
			wantDeletes: []string{"job-worker-0", "job-worker-1"},
		},
		"no pod is created while a pod of the earlier attempt exists": {
			pods:       []*corev1.Pod{pod("job-worker-0", running, deleting)},
			wantWakeIn: untilOverdue,
		},
		"a pod that fails while it is being deleted is not counted again": {
			pods:       []*corev1.Pod{pod("job-worker-0", exited(143), deleting)},
			wantWakeIn: untilOverdue,
		},
		"a pod that failed before its deletion is not counted again": {
			pods:        []*corev1.Pod{pod("job-worker-0", exited(1))},
			wantDeletes: []string{"job-worker-0"},
		},
		"all pods are created when all earlier pods are gone": {
			wantCreates: []string{created("job-worker-0", "1"), created("job-worker-1", "1")},
		},
		"the missing pods are created when others exist": {
			pods:        []*corev1.Pod{pod("job-worker-1", again(1))},
			wantCreates: []string{created("job-worker-0", "1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := restarted().Sees(tc.pods...)
			diff(t, "decision", summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 1, Attempt: 1,
				Failures: []string{"job-worker-1: exit code 1, counted"},
				Deletes:  tc.wantDeletes, Creates: tc.wantCreates, WakeIn: tc.wantWakeIn,
			}, summarize(d))
			if len(d.Restarts) > 0 {
				t.Error("the decision counts a restart again")
			}
		})
	}
}

// With restart scope Replica, the other replicas keep running.
func TestRestartOfOneReplica(t *testing.T) {
	t.Parallel()
	const (
		onFailure = batchv1beta1.RestartPolicyOnFailure
		always    = batchv1beta1.RestartPolicyAlways
		never     = batchv1beta1.RestartPolicyNever
		exitCode  = batchv1beta1.RestartPolicyExitCode
	)
	for name, tc := range map[string]struct {
		policy batchv1beta1.RestartPolicy
		pod    *corev1.Pod
		// wantRestart reports whether this replica restarts. The others never do.
		wantRestart  bool
		wantBackoff  int32
		wantFailures []string
	}{
		"OnFailure restarts a replica that failed": {
			policy: onFailure, pod: pod("job-worker-1", exited(1)),
			wantRestart: true, wantBackoff: 1, wantFailures: []string{"job-worker-1: exit code 1, counted"},
		},
		"OnFailure does not restart a replica that succeeded": {
			policy: onFailure, pod: pod("job-worker-1", exited(0)),
		},
		"Always restarts a replica that failed": {
			policy: always, pod: pod("job-worker-1", exited(1)),
			wantRestart: true, wantBackoff: 1, wantFailures: []string{"job-worker-1: exit code 1, counted"},
		},
		"Always restarts a replica that succeeded, without counting a failure": {
			policy: always, pod: pod("job-worker-1", exited(0)),
			wantRestart: true,
		},
		"Never does not restart a replica that failed": {
			policy: never, pod: pod("job-worker-1", exited(1)),
			wantFailures: []string{"job-worker-1: exit code 1, counted"},
		},
		"Never does not restart a disrupted replica": {
			policy: never, pod: pod("job-worker-1", exited(143), disrupted),
			wantFailures: []string{"job-worker-1: exit code 143, ignored"},
		},
		"ExitCode restarts a replica after exit code 130": {
			policy: exitCode, pod: pod("job-worker-1", exited(130)),
			wantRestart: true, wantBackoff: 1, wantFailures: []string{"job-worker-1: exit code 130, counted"},
		},
		"ExitCode restarts a replica after exit code 138, which is user-defined": {
			policy: exitCode, pod: pod("job-worker-1", exited(138)),
			wantRestart: true, wantBackoff: 1, wantFailures: []string{"job-worker-1: exit code 138, counted"},
		},
		"ExitCode does not restart a replica after exit code 139": {
			policy: exitCode, pod: pod("job-worker-1", exited(139)),
			wantFailures: []string{"job-worker-1: exit code 139, counted"},
		},
		"a disruption restarts the replica and does not count": {
			policy: onFailure, pod: pod("job-worker-1", exited(143), disrupted),
			wantRestart: true, wantFailures: []string{"job-worker-1: exit code 143, ignored"},
		},
		"a rejection by the kubelet restarts the replica and does not count": {
			policy: exitCode, pod: pod("job-worker-1", rejected),
			wantRestart: true, wantFailures: []string{"job-worker-1: no exit code, ignored"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 3), tc.policy)).Scope(scopeReplica).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running))
			d := j.Sees(pod("job-worker-0", running), tc.pod, pod("job-worker-2", running))

			want := summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonReplicasRunning,
				Backoff: tc.wantBackoff, Failures: tc.wantFailures,
			}
			wantRestarts := map[string]int32{}
			if tc.wantRestart {
				want.Phase, want.Reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonRestarting
				want.Deletes = []string{"job-worker-1"}
				wantRestarts["worker"] = 1
			}
			diff(t, "decision", want, summarize(d))
			diff(t, "restartCount", wantRestarts, restartsOf(d))

			if tc.wantRestart {
				j.Status = d.Status
				diff(t, "creations after its pod is gone", []string{created("job-worker-1", "0.1")},
					summarize(j.Sees(pod("job-worker-0", running), pod("job-worker-2", running))).Creates)
			}
		})
	}
}

func TestRestartOfSeveralReplicasCountsEach(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 3)).Scope(scopeReplica).BackoffLimit(5).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)).
		Sees(pod("job-worker-0", exited(3)), pod("job-worker-1", running), pod("job-worker-2", exited(1)))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 2,
		Failures: []string{"job-worker-2: exit code 1, counted", "job-worker-0: exit code 3, counted"},
		Deletes:  []string{"job-worker-0", "job-worker-2"},
	}, summarize(d))
}

// A kubelet can report a consequence before another kubelet reports the root cause. The root cause is determined after
// all kubelets have had time to report.
func TestRootCauseOfAFailureInACollective(t *testing.T) {
	t.Parallel()
	type reports []*corev1.Pod
	for name, tc := range map[string]struct {
		policy batchv1beta1.RestartPolicy
		// pods are seen now, with a window of 2 s.
		pods reports
		// wantWakeIn is the requeue delay.
		wantWakeIn   time.Duration
		wantFailures []string
		wantPhase    batchv1beta1.JobPhase
		wantDecided  bool
	}{
		"a failure is not judged yet while other replicas run": {
			pods:       reports{pod("job-worker-0", exited(1)), pod("job-worker-1", running), pod("job-worker-2", running)},
			wantWakeIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"a failure is not judged yet, although it is long ago by the clock of its node": {
			pods: reports{
				pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running), pod("job-worker-2", running),
			},
			wantWakeIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
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
			policy:     batchv1beta1.RestartPolicyExitCode,
			pods:       reports{pod("job-worker-0", exited(1)), pod("job-worker-1", running), pod("job-worker-2", exited(1))},
			wantWakeIn: 2 * time.Second, wantPhase: batchv1beta1.JobPhaseRunning,
		},
		"a deleted replica is the root cause without a wait for reports": {
			pods: reports{
				pod("job-worker-0", exited(1)), pod("job-worker-1", running, deleting), pod("job-worker-2", running),
			},
			wantFailures: []string{"job-worker-1: no exit code, ignored"}, wantPhase: batchv1beta1.JobPhasePending,
			wantWakeIn: untilOverdue,
		},
		"the success of the leader is decided immediately": {
			pods:      reports{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)), pod("job-worker-2", running)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantDecided: true, wantWakeIn: 30 * time.Second,
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
			diff(t, "requeue delay", tc.wantWakeIn, got.WakeIn)
			diff(t, "whether the end is decided", tc.wantDecided, d.Status.Decided())
			if tc.wantPhase == batchv1beta1.JobPhaseRunning && !tc.wantDecided {
				diff(t, "ReplicaFailure, before anything is decided", metav1.ConditionTrue,
					conditionOf(d, batchv1beta1.ConditionReplicaFailure).Status)
				diff(t, "deletions, before anything is decided", []string(nil), got.Deletes)
			}
		})
	}
}

// Each failure has its own window. The condition can still be True because of an earlier failure, or another controller
// whose clock is ahead can have set it.
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
	diff(t, "requeue delay after the second failure, before all replicas run again", 2*time.Second, summarize(d).WakeIn)

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
	diff(t, "requeue delay if it is unknown when the failure was seen", 2*time.Second, summarize(j.Sees(again...)).WakeIn)
}

// A replica that stays failed does not affect a later failure that restarts all replicas.
func TestFailureHasItsWindowWhileAReplicaStaysFailed(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	failed := pod("job-worker-1", exitedAgo(1, time.Minute)) // which ExitCode does not restart
	j := job(restarting(role("worker", 3), batchv1beta1.RestartPolicyExitCode))
	j.Spec.DefaultRestartScope, j.Spec.Rendezvous = scopeReplica, true
	j.Window(2*time.Second).Saw(time.Hour, worker0, pod("job-worker-1", running), worker2).
		Saw(time.Minute, worker0, failed, worker2)
	d := j.Sees(pod("job-worker-0", exited(137)), failed, worker2)
	diff(t, "requeue delay", 2*time.Second, summarize(d).WakeIn)
	diff(t, "attempt of the job", int32(0), d.Status.Attempt)
}

// The exit of a pod that is being deleted is not a failure of its replica. The replica is replaced, whatever its
// restart policy, and nothing counts towards backoffLimit.
func TestDeletedReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]*corev1.Pod{
		"a replica that is deleted while it runs is replaced":        pod("job-worker-1", running, deleting),
		"a replica that fails while it is being deleted is replaced": pod("job-worker-1", exited(137), deleting),
		"a replica that is deleted before it starts is replaced":     pod("job-worker-1", deleting),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).BackoffLimit(0).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
			d := j.Sees(pod("job-worker-0", running), deleted)
			diff(t, "decision", summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, WakeIn: untilOverdue,
			}, summarize(d))
			diff(t, "restartCount", map[string]int32{"worker": 1}, restartsOf(d))

			j.Status = d.Status
			d = j.Sees(pod("job-worker-0", running))
			diff(t, "creations after the pod is gone", []string{created("job-worker-1", "0.1")}, summarize(d).Creates)
			diff(t, "backoffCount", int32(0), d.Status.BackoffCount)
			diff(t, "disruptions", int32(1), d.Status.Disruptions)
		})
	}
}

// A pod that is being deleted can exit with 0 although it has not finished its work.
func TestSuccessOfADeletedPodIsIgnored(t *testing.T) {
	t.Parallel()
	for name, leader := range map[string]bool{
		"a leader that exits with 0 while it is being deleted is restarted":  true,
		"a replica that exits with 0 while it is being deleted is restarted": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
			ended, rest := "job-worker-1", pods[0]
			if leader {
				ended, rest = "job-worker-0", pods[1]
			}
			j := job(role("worker", 2)).Scope(scopeReplica).Saw(2*time.Minute, pods...).
				Saw(time.Minute, rest, pod(ended, exited(0), deleting))
			d := j.Sees(rest, pod(ended, exited(0), deleting))
			diff(t, "decision", summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{ended + ": no exit code, ignored"}, WakeIn: untilOverdue,
			}, summarize(d))

			j.Status = d.Status
			diff(t, "creations after the pod is gone", []string{created(ended, "0.1")}, summarize(j.Sees(rest)).Creates)
		})
	}
}

// A replica that is not restarted stays failed until the job ends, even without its pod.
func TestReplicaThatStaysFailedIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
		Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	d := j.Sees(pod("job-worker-0", running))
	diff(t, "creations", []string(nil), summarize(d).Creates)
	diff(t, "phase", batchv1beta1.JobPhaseRunning, d.Status.Phase)
	diff(t, "aggregate", &batchv1beta1.Aggregate{Running: 1, Failed: 1}, d.Status.Aggregate)
	diff(t, "ReplicaFailure", metav1.ConditionTrue,
		meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionReplicaFailure).Status)
}

// A disruption is an ignored failure. It is recorded, its restart can be delayed, and the policy Never applies to it.
func TestDisruptedReplica(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy batchv1beta1.RestartPolicy
		want   summary
	}{
		"OnFailure restarts a replica that is being disrupted": {
			policy: batchv1beta1.RestartPolicyOnFailure,
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, WakeIn: untilOverdue,
			},
		},
		"ExitCode restarts a replica that is being disrupted": {
			policy: batchv1beta1.RestartPolicyExitCode,
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, WakeIn: untilOverdue,
			},
		},
		"Never does not restart a replica that is being disrupted": {
			policy: batchv1beta1.RestartPolicyNever,
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonReplicasRunning,
				Failures: []string{"job-worker-1: no exit code, ignored"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), tc.policy)).Scope(scopeReplica).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
			d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting))
			diff(t, "decision", tc.want, summarize(d))

			j.Status = d.Status
			var want []string
			if tc.policy != batchv1beta1.RestartPolicyNever {
				want = []string{created("job-worker-1", "0.1")}
			}
			diff(t, "creations after the pod is gone", want, summarize(j.Sees(pod("job-worker-0", running))).Creates)
		})
	}
}

// The pod of a lost node never ends by itself. It is deleted by force, and the job is requeued for that. This is the
// same for an active job and for a finished one.
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
			diff(t, "requeue delay", due, summarize(early).WakeIn)

			late := plan.Decide(j.Job, seeing(pod("job-worker-0", running), lost), now.Add(due))
			diff(t, "deletions by force", []string{"job-worker-1"}, names(late.ForceDeletes))
		})
	}
}

// Without a restart, the peers of a missing replica would hold their GPUs until a timeout.
func TestMissingReplicaRestartsTheCollective(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).BackoffLimit(0).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running, onNode("node-1")))
	d := j.Sees(pod("job-worker-0", running))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Attempt: 1,
		Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-0"},
	}, summarize(d))
	diff(t, "node", "node-1", d.Status.Failures[0].Node)

	j.Status = d.Status
	diff(t, "creations after the peer is gone too", []string{created("job-worker-0", "1"), created("job-worker-1", "1")},
		summarize(j.Sees()).Creates)
}

// Failures that followed from the root cause do not end the job, even if they look permanent.
func TestFollowingFailuresDoNotDecide(t *testing.T) {
	t.Parallel()
	for name, root := range map[string]*corev1.Pod{
		"a failure that followed a SIGKILL does not end the job":    pod("job-worker-0", exitedAgo(137, time.Minute)),
		"a failure that followed a preemption does not end the job": pod("job-worker-0", running, disrupted, deleting),
		"a failure that followed a deletion does not end the job":   pod("job-worker-0", running, deleting),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running))
			d := j.Sees(root, pod("job-worker-1", exited(1)))
			diff(t, "phase", batchv1beta1.JobPhasePending, d.Status.Phase)
			diff(t, "attempt", int32(1), d.Status.Attempt)
			diff(t, "replica of the root cause", "job-worker-0", d.Status.Failures[0].Replica)
		})
	}
}

// The job controller did not create a pod whose attempt the status does not know. The pod is replaced, whatever its
// state.
func TestPodOfAnUnknownAttemptIsReplaced(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute).
		Sees(pod("job-worker-0", running), pod("job-worker-1", again(3), exited(1)))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Deletes: []string{"job-worker-1"},
	}, summarize(d))
}

// A pod whose attempt the status does not know reports nothing about a failure.
func TestPodOfAnUnknownAttemptIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := ran().Window(time.Minute).Sees(pod("job-worker-0", running, again(3)), pod("job-worker-1", exited(1)))
	diff(t, "attempt of the job", int32(1), d.Status.Attempt)
}

// Somebody can change the label of a running pod and then delete the pod.
func TestDeletionOfAPodOfAnUnknownAttemptIsNotARestart(t *testing.T) {
	t.Parallel()
	d := ran().Scope(scopeReplica).Sees(pod("job-worker-0", running), pod("job-worker-1", running, again(3), deleting))
	diff(t, "restarts", []plan.Restart(nil), d.Restarts)
	diff(t, "failures", []string(nil), summarize(d).Failures)
}

// The clock of a node can be ahead. That does not delay a restart.
func TestRestartIsNotDelayedByTheClockOfANode(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, -time.Hour)))
	diff(t, "restartTime", (*metav1.Time)(nil), d.Status.Tasks[0].Replicas[1].RestartTime)
	diff(t, "requeue delay", time.Duration(0), summarize(d).WakeIn)
}

// Raising backoffLimit restarts a replica that had exceeded it. The failure is recorded only once.
func TestRaisedLimitRestartsAReplicaThatStayedFailed(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))}
	j := job(role("worker", 2)).Scope(scopeReplica).BackoffLimit(0).
		Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(time.Minute, pods...).
		BackoffLimit(1)
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 1,
		Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: []string{"job-worker-1"},
	}, summarize(j.Sees(pods...)))
}

// The failure of a replica that stayed failed becomes the root cause when the user edits the restart scope. It is
// recorded only once.
func TestFailureIsRecordedOnceWhenTheScopeIsEdited(t *testing.T) {
	t.Parallel()
	leader, failed := pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))
	both := []*corev1.Pod{leader, pod("job-worker-1", running)}
	never := restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)
	for name, tc := range map[string]struct {
		job    *jobBuilder
		edit   func(*jobBuilder)
		pods   []*corev1.Pod
		reason string
	}{
		"the failure ends the job": {
			job:  job(never),
			edit: func(j *jobBuilder) { j.Scope(scopeJob) }, pods: []*corev1.Pod{leader, failed},
			reason: batchv1beta1.ReasonPermanentFailure,
		},
		"the failure ends the job, although its pod is gone": {
			job:  job(never),
			edit: func(j *jobBuilder) { j.Scope(scopeJob) }, pods: []*corev1.Pod{leader},
			reason: batchv1beta1.ReasonPermanentFailure,
		},
		"the failure restarts the job": {
			job:  job(role("worker", 2)).BackoffLimit(0),
			edit: func(j *jobBuilder) { j.Scope(scopeJob).BackoffLimit(1) }, pods: []*corev1.Pod{leader, failed},
			reason: batchv1beta1.ReasonRestarting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job.Scope(scopeReplica).Saw(2*time.Minute, both...).Saw(time.Minute, leader, failed)
			tc.edit(j)
			d := j.Sees(tc.pods...)
			diff(t, "reason", tc.reason, d.Status.Reason)
			diff(t, "failures", []string{"job-worker-1: exit code 1, counted"}, summarize(d).Failures)
		})
	}
}

// Only the last failures are kept, so the failure of a replica that stayed failed can be missing from the status.
func TestFailureIsRecordedAgainIfItIsMissing(t *testing.T) {
	t.Parallel()
	leader, failed := pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))
	for name, change := range map[string]func(*batchv1beta1.ReplicaFailure){
		"the recorded failure is of another replica": func(f *batchv1beta1.ReplicaFailure) { f.Replica = "job-worker-2" },
		"the recorded failure has another exit code": func(f *batchv1beta1.ReplicaFailure) { f.ExitCode = new(int32(7)) },
		"the recorded failure is an earlier one":     func(f *batchv1beta1.ReplicaFailure) { f.Time = ago(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
				Saw(2*time.Minute, leader, pod("job-worker-1", running)).Saw(time.Minute, leader, failed)
			change(&j.Status.Failures[0])
			d := j.Scope(scopeJob).Sees(leader, failed)
			diff(t, "number of failures", 2, len(d.Status.Failures))
			diff(t, "newest failure", "job-worker-1: exit code 1, counted", summarize(d).Failures[0])
		})
	}
}

// The same replica can fail again in the same way.
func TestFailureOfTheNextAttemptIsRecorded(t *testing.T) {
	t.Parallel()
	first := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	second := []*corev1.Pod{pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running)}
	j := job(role("worker", 2)).
		Saw(3*time.Minute, first...).
		Saw(2*time.Minute, first[0], pod("job-worker-1", exitedAgo(1, 2*time.Minute))).
		Saw(time.Minute, second...)
	diff(t, "failures", []string{"job-worker-1: exit code 1, counted", "job-worker-1: exit code 1, counted"},
		summarize(j.Sees(second[0], pod("job-worker-1", again(1), exited(1)))).Failures)
}

// A success after which Always restarts the replica is not a failure, even if the replica failed before.
func TestRestartAfterASuccessIsNotAFailure(t *testing.T) {
	t.Parallel()
	second := pod("job-worker-1", againAlone(1), running)
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).Scope(scopeReplica).
		Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(50*time.Minute, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, 50*time.Minute))).
		Saw(time.Minute, pod("job-worker-0", running), second)
	d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", againAlone(1), exited(0)))
	diff(t, "ReplicaFailure", metav1.ConditionFalse,
		meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionReplicaFailure).Status)
}

// With restart scope Job, a restart after a success does not restart the peers.
func TestAlwaysRestartsASuccessWithoutItsPeers(t *testing.T) {
	t.Parallel()
	j := job(role("master", 1), restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).
		Saw(time.Minute, pod("job-master-0", running), pod("job-worker-0", running), pod("job-worker-1", running))
	d := j.Sees(pod("job-master-0", running), pod("job-worker-0", running), pod("job-worker-1", exited(0)))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Deletes: []string{"job-worker-1"},
	}, summarize(d))
}

// The failure of a replica that stays failed is recorded when it is first seen. Its peers keep running.
func TestFailureThatIsNotRestartedIsRecordedOnce(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))}
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
		Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(time.Minute, pods...)
	before := j.Status
	d := j.Sees(pods...)
	diff(t, "status after a second reconcile", before, d.Status)
	diff(t, "failures", []string{"job-worker-1: exit code 1, counted"}, summarize(d).Failures)
	diff(t, "events of a second reconcile", []report.Event(nil), d.Events)
}

func TestReplicaBeyondTheLimitStaysFailed(t *testing.T) {
	t.Parallel()
	running2 := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		pod          *corev1.Pod
		want         []string
		wantFailures []string
	}{
		"a replica is not restarted after a failure that would exceed backoffLimit": {
			pod:          pod("job-worker-1", exited(1)),
			wantFailures: []string{"job-worker-1: exit code 1, counted"},
		},
		"a replica is restarted after an ignored failure, whatever backoffLimit is": {
			pod:          pod("job-worker-1", exited(143), disrupted),
			want:         []string{"job-worker-1"},
			wantFailures: []string{"job-worker-1: exit code 143, ignored"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(role("worker", 2)).Scope(scopeReplica).BackoffLimit(0).
				Saw(time.Minute, running2...).
				Sees(pod("job-worker-0", running), tc.pod)
			diff(t, "deletions", tc.want, names(d.Deletes))
			diff(t, "failures", tc.wantFailures, summarize(d).Failures)
			diff(t, "backoffCount", int32(0), d.Status.BackoffCount)
			if d.Status.Finished() {
				t.Errorf("the job ended (%s), but only the leader decides", d.Status.Reason)
			}
		})
	}
}

// The first restart is immediate, unless a device is unhealthy. The second comes 10 s after the failure. From then on
// the delay doubles, up to 6 min.
func TestRestartDelay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope    batchv1beta1.RestartScope
		attempts int32
		// failedAgo is how long ago the last failure was.
		failedAgo time.Duration
		options   []podOption
		wantWait  time.Duration
	}{
		"the first restart of the job is immediate": {scope: scopeJob, attempts: 1},
		"the second restart of the job waits 10 s": {
			scope: scopeJob, attempts: 2, wantWait: 10 * time.Second,
		},
		"the third restart of the job waits twice as long": {
			scope: scopeJob, attempts: 3, wantWait: 20 * time.Second,
		},
		"the tenth restart of the job waits the maximum delay": {
			scope: scopeJob, attempts: 10, wantWait: 6 * time.Minute,
		},
		"the delay of a restart begins with the failure": {
			scope: scopeJob, attempts: 3, failedAgo: 15 * time.Second, wantWait: 5 * time.Second,
		},
		"a restart is immediate if its delay is over": {
			scope: scopeJob, attempts: 3, failedAgo: time.Minute,
		},
		"a restart after an ignored failure waits too": {
			scope: scopeJob, attempts: 2, options: []podOption{disrupted}, wantWait: 10 * time.Second,
		},
		"the third restart of one replica waits twice as long": {
			scope: scopeReplica, attempts: 3, wantWait: 20 * time.Second,
		},
		"the first restart of one replica is immediate": {scope: scopeReplica, attempts: 1},
		"a restart of one replica after an ignored failure waits too": {
			scope: scopeReplica, attempts: 2, options: []podOption{disrupted}, wantWait: 10 * time.Second,
		},
		"the first restart of the job because of an unhealthy device waits 15 s": {
			scope: scopeJob, attempts: 1, options: []podOption{withBadDevice("gpu-1")}, wantWait: 15 * time.Second,
		},
		"the first restart of one replica because of an unhealthy device waits 15 s": {
			scope: scopeReplica, attempts: 1, options: []podOption{withBadDevice("gpu-1")}, wantWait: 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2)).Scope(tc.scope).BackoffLimit(100)
			peer := func(int32) []*corev1.Pod { return []*corev1.Pod{pod("job-worker-0", running)} }
			nth, last := againAlone, plan.AttemptLabel(0, tc.attempts)
			if tc.scope == scopeJob {
				peer = func(n int32) []*corev1.Pod { return []*corev1.Pod{pod("job-worker-0", running, again(n))} }
				nth, last = again, plan.AttemptLabel(tc.attempts, 0)
			}
			for n := range tc.attempts - 1 {
				j.Saw(time.Hour, append(peer(n), pod("job-worker-1", running, nth(n)))...)
				j.Saw(time.Hour, append(peer(n), pod("job-worker-1", exitedAgo(1, time.Hour), nth(n)))...)
			}
			options := append([]podOption{exitedAgo(1, tc.failedAgo), nth(tc.attempts - 1)}, tc.options...)
			j.Saw(0, append(peer(tc.attempts-1), pod("job-worker-1", options...))...)

			gone := []*corev1.Pod{}
			want := []string{created("job-worker-0", last), created("job-worker-1", last)}
			if tc.scope == scopeReplica {
				gone = peer(0)
				want = want[1:]
			}
			d := j.Sees(gone...)
			if tc.wantWait == 0 {
				diff(t, "creations", want, summarize(d).Creates)
				return
			}
			diff(t, "creations before the restart is due", []string(nil), summarize(d).Creates)
			diff(t, "requeue delay", tc.wantWait, summarize(d).WakeIn)
			diff(t, "restartTime", new(metav1.NewTime(now.Add(tc.wantWait))), d.Status.Tasks[0].Replicas[1].RestartTime)
			later := plan.Decide(j.Job, seeing(gone...), now.Add(tc.wantWait))
			diff(t, "creations when the restart is due", want, summarize(later).Creates)
		})
	}
}

// A job is requeued at the earliest time that it waits for.
func TestWakeAtIsTheEarliestTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline int64
		want     time.Duration
	}{
		"a restart before the deadline is the earliest time": {deadline: 4000, want: 10 * time.Second},
		"a deadline before the restart is the earliest time": {deadline: 3605, want: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Deadline(tc.deadline).
				Saw(time.Hour, pod("job-worker-0", running)).
				Saw(time.Minute, pod("job-worker-0", exitedAgo(1, time.Minute))).
				Saw(0, pod("job-worker-0", exited(1), again(1)))
			diff(t, "requeue delay", tc.want, summarize(j.Sees()).WakeIn)
		})
	}
}

func TestFailuresAreTheLastFiveNewestFirst(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).BackoffLimit(100)
	var want []batchv1beta1.ReplicaFailure
	for n := range int32(7) {
		failed := time.Duration(7-n) * time.Hour
		j.Saw(failed, pod("job-worker-0", again(n), onNode(fmt.Sprintf("node-%d", n)),
			exitedAgo(10+n, failed), printed(fmt.Sprintf("output %d", n))))
		if n >= 2 {
			want = append([]batchv1beta1.ReplicaFailure{{
				Replica: "job-worker-0", Node: fmt.Sprintf("node-%d", n), ExitCode: new(10 + n),
				Reason: batchv1beta1.ReasonError, Time: ago(failed), Counted: true, Message: fmt.Sprintf("output %d", n),
			}}, want...)
		}
	}
	diff(t, "failures", want, j.Status.Failures)
	diff(t, "backoffCount", int32(7), j.Status.BackoffCount)
}

func TestFailureOfADeletedPodHasTheTimeOfItsDeletion(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running)).
		Sees(pod("job-worker-0", running, onNode("node-1"), deleting))
	diff(t, "failures", []batchv1beta1.ReplicaFailure{{
		Replica: "job-worker-0", Node: "node-1", Reason: batchv1beta1.ReasonDeleted, Time: ago(0),
	}}, d.Status.Failures)
}

// The restart scope can change while the job runs. No attempt is used twice, so no pod is judged twice.
func TestScopeMayChangeBetweenRestarts(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Scope(scopeReplica).
		Saw(3*time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(2*time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, 2*time.Hour))).
		Scope(scopeJob).
		Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running, againAlone(1)))
	diff(t, "deletions", []string{"job-worker-0", "job-worker-1"},
		names(j.Sees(pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running, againAlone(1))).Deletes))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 2, Attempt: 1,
		Failures: []string{"job-worker-0: exit code 1, counted", "job-worker-1: exit code 1, counted"},
		Creates:  []string{created("job-worker-0", "1"), created("job-worker-1", "1")},
	}, summarize(j.Sees()))
}

// A node that rejects a pod can reject the next pod within the same second.
func TestFailuresOfTwoAttemptsInOneSecondAreTwo(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(0, pod("job-worker-0", rejected))
	diff(t, "failures", []string{"job-worker-0: no exit code, ignored", "job-worker-0: no exit code, ignored"},
		summarize(j.Sees(pod("job-worker-0", again(1), rejected))).Failures)
}

// If a pod is gone, the time when its replica ended is unknown. The restart delay begins now.
func TestRestartOfAReplicaThatIsGoneIsDelayed(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Hour, pod("job-worker-0", running)).
		Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour))).
		Saw(time.Minute, pod("job-worker-0", running, again(1)))
	got := summarize(j.Sees())
	diff(t, "creations", []string(nil), got.Creates)
	diff(t, "requeue delay", 10*time.Second, got.WakeIn)
}
