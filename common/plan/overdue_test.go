package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// A job that waits for its pods to end reports the overdue pods.
func TestJobReportsOverduePods(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running, onNode("node-1")), pod("job-worker-1", running, onNode("node-2"))}
	succeeded := job(role("worker", 2)).GivePeers(30*time.Second).Saw(time.Hour, both...).
		Saw(0, pod("job-worker-0", exited(0)), both[1])
	failed := job(role("worker", 2)).Deadline(3600).Saw(time.Hour, both...).Saw(0, both...)
	// The grace period of this pod ends 30 s from now.
	goes := func(name string) *corev1.Pod { return pod(name, running, onNode("node-2"), deleting) }
	const waiting = "waiting for overdue pod "
	for name, tc := range map[string]struct {
		job   *jobBuilder
		pods  []*corev1.Pod
		after time.Duration
		want  string
		// wantRequeueIn is counted from the time of the decision about the end.
		wantRequeueIn time.Duration
	}{
		"a pod is not reported until a minute after its grace period": {
			job: succeeded, pods: []*corev1.Pod{goes("job-worker-1")}, after: 89 * time.Second,
			want: "leader job-worker-0 succeeded", wantRequeueIn: 90 * time.Second,
		},
		"a pod is reported a minute after its grace period": {
			job: succeeded, pods: []*corev1.Pod{goes("job-worker-1")}, after: 90 * time.Second,
			want: waiting + "job-worker-1 on node node-2 to end: leader job-worker-0 succeeded",
		},
		"a pod whose deletion is rejected is reported a minute after PeerGrace": {
			job: succeeded, pods: both[1:], after: 90 * time.Second,
			want: waiting + "job-worker-1 on node node-2 to end: leader job-worker-0 succeeded",
		},
		"several pods are reported a minute after a failure if their deletion is rejected": {
			job: failed, pods: both, after: time.Minute,
			want: waiting + "job-worker-0 on node node-1 and 1 more to end: " +
				"the job was active for longer than runPolicy.activeDeadlineSeconds (3600 s)",
		},
		"a pod without a node is reported without a node name": {
			job: succeeded, pods: []*corev1.Pod{pod("job-worker-1", unschedulable)}, after: 90 * time.Second,
			want: waiting + "job-worker-1 to end: leader job-worker-0 succeeded",
		},
		"an ended pod is not reported": {
			job: succeeded, after: time.Hour, want: "leader job-worker-0 succeeded",
			pods: []*corev1.Pod{goes("job-worker-1"), pod("job-worker-0", exited(0))}[1:],
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, seeing(tc.pods...), now.Add(tc.after))
			diff(t, "message of Running", tc.want, conditionOf(d, batchv1beta1.ConditionRunning).Message)
			diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
		})
	}
}

// A job that waits to restart reports the overdue pods of its replicas: nothing else shows why it does not restart.
func TestRestartReportsOverduePods(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running, onNode("node-1")), pod("job-worker-1", running, onNode("node-2"))}
	failed := func(j *jobBuilder) *jobBuilder {
		return j.Saw(time.Hour, both...).Saw(0, pod("job-worker-0", exited(1)), both[1])
	}
	job2 := func() *jobBuilder { return job(role("worker", 2)) }
	// The grace period of these pods ends 30 s from now.
	goes := func(name, node string, options ...podOption) *corev1.Pod {
		return pod(name, append([]podOption{running, onNode(node), deleting}, options...)...)
	}
	for name, tc := range map[string]struct {
		job   *jobBuilder
		pods  []*corev1.Pod
		after time.Duration
		want  string
		// wantRequeueIn is counted from the time of the failure.
		wantRequeueIn time.Duration
	}{
		"a pod is not reported until a minute after its grace period": {
			job: failed(job2()), pods: []*corev1.Pod{goes("job-worker-1", "node-2")}, after: 89 * time.Second,
			want: "2 of 2 replicas are not running yet: job-worker-0 is being recreated", wantRequeueIn: 90 * time.Second,
		},
		"a pod is reported a minute after its grace period, although another replica comes first": {
			job: failed(job2()), pods: []*corev1.Pod{goes("job-worker-1", "node-2")}, after: 90 * time.Second,
			want: "2 of 2 replicas are not running yet: waiting for overdue pod job-worker-1 on node node-2 to end",
		},
		"several pods are counted": {
			job:   failed(job2()),
			pods:  []*corev1.Pod{goes("job-worker-1", "node-2"), goes("job-worker-0", "node-1")},
			after: 90 * time.Second,
			want:  "2 of 2 replicas are not running yet: waiting for overdue pod job-worker-0 on node node-1 and 1 more to end",
		},
		"a pod that a finalizer keeps is reported": {
			job: failed(job2()), pods: []*corev1.Pod{goes("job-worker-1", "node-2", exited(143))},
			after: 90 * time.Second,
			want: "2 of 2 replicas are not running yet: " +
				"waiting for overdue pod job-worker-1 on node node-2 (its containers have ended) to end",
		},
		"the pod of a replica that restarts alone is reported": {
			job:   job2().Scope(scopeReplica).Saw(time.Hour, both...),
			pods:  []*corev1.Pod{both[0], goes("job-worker-1", "node-2")},
			after: 90 * time.Second,
			want:  "1 of 2 replicas is not running yet: waiting for overdue pod job-worker-1 on node node-2 to end",
		},
		"a replica that cannot start without help is named before an overdue pod": {
			job:   job2().Scope(scopeReplica),
			pods:  []*corev1.Pod{pod("job-worker-0", unschedulable), goes("job-worker-1", "node-2")},
			after: 90 * time.Second,
			want:  "2 of 2 replicas are not running yet: job-worker-0 cannot be scheduled: 0/3 nodes are available",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, seeing(tc.pods...), now.Add(tc.after))
			diff(t, "message of Running", tc.want, conditionOf(d, batchv1beta1.ConditionRunning).Message)
			diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
		})
	}
}

// overdue marks a pod as being deleted, with a grace period that ended two minutes ago.
func overdue(p *corev1.Pod) { p.DeletionTimestamp = new(ago(2 * time.Minute)) }

func TestOverduePodsOfARestartAreInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1), role("ps", 1)).
		Saw(time.Hour, pod("job-worker-0", running), pod("job-ps-0", running)).
		Sees(pod("job-worker-0", running, overdue), pod("job-ps-0", running, overdue))
	diff(t, "message of Running",
		"2 of 2 replicas are not running yet: waiting for overdue pod job-ps-0 and 1 more to end",
		conditionOf(d, batchv1beta1.ConditionRunning).Message)
}

// A replica that is not restarted gets no new pod, so the job does not wait for the end of its failed pod.
func TestPodOfAReplicaThatIsNotRestartedIsNotOverdue(t *testing.T) {
	t.Parallel()
	d := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).
		Sees(pod("job-worker-0", running), pod("job-worker-1", disrupted, overdue))
	diff(t, "message of Running", "1 of 2 replicas is not running yet: job-worker-1 is starting",
		conditionOf(d, batchv1beta1.ConditionRunning).Message)
}
