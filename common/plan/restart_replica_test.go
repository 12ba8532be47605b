package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// With restart scope Replica, a failure does not restart the other replicas.
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
		// wantRestart reports whether the replica of this pod restarts. The other replicas never restart.
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

// The exit of a pod that is being deleted is not a failure of its replica. The replica gets a new pod, whatever its
// restart policy is, and nothing counts towards backoffLimit.
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
				Failures: []string{"job-worker-1: no exit code, ignored"}, RequeueIn: untilOverdue,
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
				Failures: []string{ended + ": no exit code, ignored"}, RequeueIn: untilOverdue,
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

// A disruption is an ignored failure. It is recorded, it can delay the restart, and the policy Never applies to it.
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
				Failures: []string{"job-worker-1: no exit code, ignored"}, RequeueIn: untilOverdue,
			},
		},
		"ExitCode restarts a replica that is being disrupted": {
			policy: batchv1beta1.RestartPolicyExitCode,
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, RequeueIn: untilOverdue,
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

// If a replica stayed failed because of backoffLimit, and the user raises the limit, the replica restarts. Its
// failure is recorded only once.
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

// With the restart policy Always, a success also restarts the replica. This restart does not count as a failure, even
// if the replica failed before.
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
