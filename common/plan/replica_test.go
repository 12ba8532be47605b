package plan_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
)

// A stale cache can show a pod as it was before its entry in the status was written.
func TestPodNeverGoesBackToPending(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	replaced := pod("job-worker-1")
	replaced.UID = "another"
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pod  *corev1.Pod
		want batchv1beta1.ReplicaPhase
	}{
		"a running pod that a stale cache shows as pending still runs": {
			job: ran(), pod: pod("job-worker-1"), want: batchv1beta1.ReplicaPhaseRunning,
		},
		"another pod of the same name can be pending": {
			job: ran(), pod: replaced, want: batchv1beta1.ReplicaPhasePending,
		},
		"a pod whose state was unknown can be pending": {
			job: ran().Saw(0, worker0, pod("job-worker-1", running, unreachable)), pod: pod("job-worker-1"),
			want: batchv1beta1.ReplicaPhasePending,
		},
		"a running pod still runs": {job: ran(), pod: worker1, want: batchv1beta1.ReplicaPhaseRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(worker0, tc.pod)
			diff(t, "phase of the replica", tc.want, d.Status.Tasks[0].Replicas[1].Phase)
			wantRunning := metav1.ConditionTrue
			if tc.want == batchv1beta1.ReplicaPhasePending {
				wantRunning = metav1.ConditionFalse
			}
			diff(t, "condition Running", wantRunning, conditionOf(d, batchv1beta1.ConditionRunning).Status)
		})
	}
}

// If the pod of a replica that stayed failed is gone, the replica is not restarted, because the details of its
// failure are lost.
func TestReplicaThatStayedFailedIsNotRestartedWithoutItsPod(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Scope(scopeReplica).BackoffLimit(0).
		Saw(time.Minute, worker0, pod("job-worker-1", exited(1))).BackoffLimit(5)
	got := summarize(j.Sees(worker0))
	diff(t, "creations", []string(nil), got.Creates)
	diff(t, "backoffCount", int32(0), got.Backoff)
}

func TestReplicaThatStayedFailedIsRestartedWhileItsPodIsDeleted(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Scope(scopeReplica).BackoffLimit(0).
		Saw(time.Minute, worker0, pod("job-worker-1", exited(1))).BackoffLimit(5)
	diff(t, "backoffCount", int32(1), summarize(j.Sees(worker0, pod("job-worker-1", exited(1), deleting))).Backoff)
}

func TestDeletedPodOfASucceededReplicaIsNotRestarted(t *testing.T) {
	t.Parallel()
	worker0, succeeded := pod("job-worker-0", running), pod("job-worker-1", exited(0))
	d := ran().Saw(time.Minute, worker0, succeeded).Sees(worker0, pod("job-worker-1", exited(0), deleting))
	diff(t, "restarts", []decide.Restart(nil), d.Restarts)
}

func TestSucceededReplicaWithoutPodRestartsAfterAnEditToAlways(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Scope(scopeReplica).Saw(time.Minute, worker0, pod("job-worker-1", exited(0)))
	j.Spec.Roles[0].RestartPolicy = batchv1beta1.RestartPolicyAlways
	diff(t, "creations", []string{created("job-worker-1", "0.1")}, summarize(j.Sees(worker0)).Creates)
}

// The kubelet can evict a pod whose main container has exited with 0 and whose sidecars still run.
func TestSucceededReplicaWhosePodFailsLaterRestartsOnce(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := ran().Scope(scopeReplica).Saw(time.Minute, worker0, pod("job-worker-1", exited(0)))
	j.Spec.Roles[0].RestartPolicy = batchv1beta1.RestartPolicyAlways
	evicted := pod("job-worker-1", exited(0))
	evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
	d := j.Sees(worker0, evicted)
	diff(t, "restarts", []decide.Restart{{Cause: batchv1beta1.ReasonCompleted}}, d.Restarts)
	diff(t, "restart counts", map[string]int32{"worker": 1}, restartsOf(d))
}

// The pod that failed is gone, and only the entry in the status is left.
func TestRecordedFailureKeepsItsExitCodeAndReason(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32, reason string) batchv1beta1.ContainerStatus {
		return batchv1beta1.ContainerStatus{
			Name: name, State: batchv1beta1.ContainerTerminated, ExitCode: &code, Reason: reason,
		}
	}
	for name, tc := range map[string]struct {
		containers []batchv1beta1.ContainerStatus
		want       batchv1beta1.ReplicaFailure
	}{
		"the failure is that of the main container, not of a sidecar": {
			containers: []batchv1beta1.ContainerStatus{
				ended("mesh", 2, "Error"), ended(mainContainer, 137, "OOMKilled"), ended("proxy", 143, "Error"),
			},
			want: batchv1beta1.ReplicaFailure{ExitCode: new(int32(137)), Reason: batchv1beta1.ReasonOOMKilled},
		},
		"the reason is Error if the container has none": {
			containers: []batchv1beta1.ContainerStatus{ended(mainContainer, 3, "")},
			want:       batchv1beta1.ReplicaFailure{ExitCode: new(int32(3)), Reason: batchv1beta1.ReasonError},
		},
		"a failure whose program exited with 0 has no exit code": {
			containers: []batchv1beta1.ContainerStatus{ended(mainContainer, 0, "Completed")},
			want:       batchv1beta1.ReplicaFailure{Reason: batchv1beta1.ReasonError},
		},
		"the reason is Error if no container is recorded": {
			want: batchv1beta1.ReplicaFailure{Reason: batchv1beta1.ReasonError},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := ran().Window(time.Second).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
			j.Status.Tasks[0].Replicas[1].Containers = tc.containers
			tc.want.Replica, tc.want.Counted, tc.want.Time = "job-worker-1", true, ago(0)
			diff(t, "failures", []batchv1beta1.ReplicaFailure{tc.want}, j.Sees(pod("job-worker-0", running)).Status.Failures)
		})
	}
}

func TestTimeOfADeletionIsWhenItWasRequested(t *testing.T) {
	t.Parallel()
	p := pod("job-worker-0", running, deleting)
	p.DeletionTimestamp = new(ago(10 * time.Second))
	failures := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running)).Sees(p).Status.Failures
	diff(t, "failures", []batchv1beta1.ReplicaFailure{
		{Replica: "job-worker-0", Reason: batchv1beta1.ReasonDeleted, Time: ago(40 * time.Second)},
	}, failures)
}

func TestReplicaFailureNamesADeletedReplica(t *testing.T) {
	t.Parallel()
	d := ran().Sees(pod("job-worker-0", running))
	diff(t, "ReplicaFailure", condition{
		metav1.ConditionTrue, batchv1beta1.ReasonDeleted, "replica job-worker-1 was deleted and is being replaced",
	}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
}

// An elastic job can run although some of its replicas do not.
func TestMissingReplicaOfAnElasticJob(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []string
	}{
		"a missing replica that ran is restarted": {
			job: scaling(worker0, worker1, pod("job-worker-2", running)), pods: []*corev1.Pod{worker0, worker1},
			want: []string{created("job-worker-2", "0.1")},
		},
		"a missing replica that never ran is created in the same attempt": {
			job: scaling(worker0, worker1, pod("job-worker-2")), pods: []*corev1.Pod{worker0, worker1},
			want: []string{created("job-worker-2", "0")},
		},
		"a missing replica that ran before the leader is created in the same attempt": {
			job:  scaling(pod("job-worker-0"), worker1, pod("job-worker-2", running)),
			pods: []*corev1.Pod{pod("job-worker-0"), worker1},
			want: []string{created("job-worker-2", "0")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "creations", tc.want, summarize(tc.job.Sees(tc.pods...)).Creates)
		})
	}
}

// A rendezvous cannot go on without its leader.
func TestRendezvousRestartsWithItsLeader(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		pods        []*corev1.Pod
		wantAttempt int32
	}{
		"the job restarts if its leader is killed": {[]*corev1.Pod{pod("job-worker-0", exited(137)), worker1}, 1},
		"only the replica restarts if another replica is killed": {
			[]*corev1.Pod{worker0, pod("job-worker-1", exited(137))}, 0,
		},
		"the job restarts if another replica gives up": {[]*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2)).Elastic(1, 2)
			j.Spec.DefaultRestartScope = scopeRendezvous
			j.Saw(time.Minute, worker0, worker1)
			d := j.Sees(tc.pods...)
			diff(t, "attempt of the job", tc.wantAttempt, d.Status.Attempt)
			diff(t, "restarts", 1, len(d.Restarts))
		})
	}
}

func TestReplicasAreFoundInAStatusInAnotherOrder(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := job(role("worker", 3)).Saw(time.Minute, worker0, pod("job-worker-1", exited(0)), pod("job-worker-2", running))
	r := j.Status.Tasks[0].Replicas
	slices.Reverse(r[1:])
	d := j.Sees(worker0, pod("job-worker-2", running))
	diff(t, "creations", []string(nil), summarize(d).Creates)
	diff(t, "replicas", []string{"job-worker-0", "job-worker-1", "job-worker-2"}, listed(d.Status))
	diff(t, "UIDs", []string{"job-worker-0-uid-0", "job-worker-1-uid-0", "job-worker-2-uid-0"}, func() (uids []string) {
		for _, r := range d.Status.Tasks[0].Replicas {
			uids = append(uids, string(r.UID))
		}
		return uids
	}())
}

func TestReplicaWithoutAnEntryIsListedWhenTheJobEnds(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Sees(pod("job-worker-0", exited(0)))
	diff(t, "replicas", []string{"job-worker-0", "job-worker-1"}, listed(d.Status))
}
