package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

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
				Attempt:   1,
				Failures:  []string{"job-worker-1: no exit code, ignored"},
				Deletes:   []string{"job-worker-0"},
				RequeueIn: untilOverdue,
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
				Attempt:   1,
				Failures:  []string{"job-worker-1: no exit code, ignored"},
				Deletes:   []string{"job-worker-0"},
				RequeueIn: untilOverdue,
			},
			wantRestarts: map[string]int32{"worker": 2},
		},
		"a pod that failed while it was being deleted is not counted": {
			job:  job(role("worker", 2)).Saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(137), deleting)},
			want: summary{
				Attempt:   1,
				Failures:  []string{"job-worker-1: no exit code, ignored"},
				Deletes:   []string{"job-worker-0"},
				RequeueIn: untilOverdue,
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

// After the first restart of a job is counted, only the deletion of the earlier pods delays the new pods.
func TestReplacementOfPodsAfterARestart(t *testing.T) {
	t.Parallel()
	failed := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))}
	restarted := func() *jobBuilder {
		return job(role("worker", 2)).Saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Minute, failed...)
	}
	for name, tc := range map[string]struct {
		pods          []*corev1.Pod
		wantDeletes   []string
		wantCreates   []string
		wantRequeueIn time.Duration
	}{
		"pods whose deletion did not happen are deleted": {
			pods:        failed,
			wantDeletes: []string{"job-worker-0", "job-worker-1"},
		},
		"no pod is created while a pod of the earlier attempt exists": {
			pods:          []*corev1.Pod{pod("job-worker-0", running, deleting)},
			wantRequeueIn: untilOverdue,
		},
		"a pod that fails while it is being deleted is not counted again": {
			pods:          []*corev1.Pod{pod("job-worker-0", exited(143), deleting)},
			wantRequeueIn: untilOverdue,
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
				Deletes:  tc.wantDeletes, Creates: tc.wantCreates, RequeueIn: tc.wantRequeueIn,
			}, summarize(d))
			if len(d.Restarts) > 0 {
				t.Error("the decision counts a restart again")
			}
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

func TestRestartsOfAReplicaAddUp(t *testing.T) {
	t.Parallel()
	d := ran().Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute))).
		Sees(pod("job-worker-0", running, again(1)), pod("job-worker-1", exited(1), again(1)))
	diff(t, "restarts", map[string]int32{"worker": 4}, restartsOf(d))
}
