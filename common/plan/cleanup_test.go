package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

func TestCleanUp(t *testing.T) {
	t.Parallel()
	// Each job fails on its deadline, with one replica in every state that a pod can be left in.
	pods := []*corev1.Pod{
		pod("job-worker-0", running),
		pod("job-worker-1", unschedulable),
		pod("job-worker-2", exited(0)),
		pod("job-worker-3", exited(1)),
		pod("job-worker-4", exited(0), sidecarRunning),
		pod("job-worker-5", running, deleting),
	}
	ended := []*corev1.Pod{pods[2], pods[3]}
	for name, tc := range map[string]struct {
		policy      batchv1beta1.CleanUpPolicy
		wantDeletes []string
		// left are the pods that stay.
		left []*corev1.Pod
		// want is the aggregate when the clean-up is done.
		want batchv1beta1.Aggregate
	}{
		"Unfinished keeps what has ended, with its logs": {
			policy:      batchv1beta1.CleanUpPolicyUnfinished,
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-4"},
			left:        ended,
			want:        batchv1beta1.Aggregate{Succeeded: 2, Failed: 1, Deleted: 4},
		},
		"Unfinished is the default": {
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-4"},
			left:        ended,
			want:        batchv1beta1.Aggregate{Succeeded: 2, Failed: 1, Deleted: 4},
		},
		"All keeps nothing": {
			policy:      batchv1beta1.CleanUpPolicyAll,
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3", "job-worker-4"},
			want:        batchv1beta1.Aggregate{Deleted: 7},
		},
		"None keeps everything, as it was at the end while something runs": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left:   pods[:5],
			want:   batchv1beta1.Aggregate{Running: 1, Pending: 1, Succeeded: 2, Failed: 1, Deleted: 2},
		},
		"None keeps everything, and sees the training end while sidecars run on": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left: append(ended, pod("job-worker-0", exited(0), sidecarRunning), pod("job-worker-1", exited(1), sidecarRunning),
				pods[4]),
			want: batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
		"None keeps everything, and sees it end": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left: append(ended, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)),
				pod("job-worker-4", exited(0))),
			want: batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The seventh replica never got a pod.
			j := job(restarting(role("worker", 7), batchv1beta1.RestartPolicyNever)).
				Scope(scopeReplica).Deadline(60).CleanUp(tc.policy).Saw(time.Minute)
			end := j.Sees(pods...)
			diff(t, "reason of FailureTarget", batchv1beta1.ReasonDeadlineExceeded,
				conditionOf(end, batchv1beta1.ConditionFailureTarget).Reason)
			diff(t, "deletions", tc.wantDeletes, names(end.CleanUps))

			j.Status = end.Status
			diff(t, "deletions of a second look", tc.wantDeletes, names(j.Sees(pods...).CleanUps))
			diff(t, "status of a second look", end.Status, j.Sees(pods...).Status)

			done := j.Sees(tc.left...)
			diff(t, "deletions at the end", []string(nil), names(done.CleanUps))
			diff(t, "final phase", batchv1beta1.JobPhaseFailed, done.Status.Phase)
			diff(t, "final aggregate", &tc.want, done.Status.Aggregate)

			j.Status = done.Status
			diff(t, "status of a last look", done.Status, j.Sees(tc.left...).Status)
		})
	}
}

// The peers of a leader that succeeded may be about to write their results.
func TestCleanUpLeavesPeersTimeAfterASuccess(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		pod("job-worker-0", exited(0), sidecarRunning),
		pod("job-worker-1", running),
		pod("job-worker-2", exited(0)),
		pod("job-worker-3", exited(0), sidecarRunning),
	}
	j := job(role("worker", 4)).GivePeers(30*time.Second).Saw(time.Hour, pods[1])
	d := j.Sees(pods...)
	diff(t, "SuccessCriteriaMet", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionSuccessCriteriaMet).Status)
	diff(t, "phase", batchv1beta1.JobPhasePending, d.Status.Phase)
	wantAtOnce := []string{"job-worker-0", "job-worker-3"}
	diff(t, "deletions at once: the training of these has ended", wantAtOnce, names(d.CleanUps))
	diff(t, "wake-up", 30*time.Second, summarize(d).WakeIn)

	j.Status = d.Status
	pods = pods[:3]
	late := plan.Decide(j.Job, seeing(pods[1:]...), now.Add(29*time.Second))
	diff(t, "deletions before the time", []string(nil), names(late.CleanUps))
	diff(t, "wake-up before the time", 30*time.Second, summarize(late).WakeIn)
	diff(t, "status before the time", d.Status, late.Status)

	late = plan.Decide(j.Job, seeing(pods[1:]...), now.Add(30*time.Second))
	diff(t, "deletions in time", []string{"job-worker-1"}, names(late.CleanUps))
	diff(t, "wake-up in time, when the pod is overdue", 90*time.Second, summarize(late).WakeIn)

	exitedMeanwhile := plan.Decide(j.Job, seeing(pod("job-worker-1", exited(0)), pods[2]), now.Add(10*time.Second))
	diff(t, "deletions once all ended", []string(nil), names(exitedMeanwhile.CleanUps))
	diff(t, "phase once all ended", batchv1beta1.JobPhaseSucceeded, exitedMeanwhile.Status.Phase)
	diff(t, "READY once all ended", "4/4", exitedMeanwhile.Status.Ready)
	diff(t, "aggregate once all ended", &batchv1beta1.Aggregate{Succeeded: 4}, exitedMeanwhile.Status.Aggregate)
}

// The peers of a leader that succeeded get time to end by themselves. No other pod does.
func TestCleanUpOfPodsThatMatterNoMore(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", running)
	foreign := func(options ...podOption) *corev1.Pod { return pod("job-worker-7", options...) }
	for name, tc := range map[string]struct {
		policy      batchv1beta1.CleanUpPolicy
		pods        []*corev1.Pod
		wantDeletes []string
	}{
		"a pod of no replica that runs may end by itself": {
			policy: batchv1beta1.CleanUpPolicyAll, pods: []*corev1.Pod{leader, peer, foreign(running)},
			wantDeletes: []string{"job-worker-0"},
		},
		"a pod of no replica that has ended is deleted at once": {
			policy: batchv1beta1.CleanUpPolicyAll, pods: []*corev1.Pod{leader, peer, foreign(exited(0))},
			wantDeletes: []string{"job-worker-0", "job-worker-7"},
		},
		"a pod of no replica that has ended stays with its logs": {
			policy: batchv1beta1.CleanUpPolicyUnfinished, pods: []*corev1.Pod{leader, peer, foreign(exited(0))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ran().CleanUp(tc.policy).GivePeers(time.Minute).Sees(tc.pods...)
			diff(t, "deletions", tc.wantDeletes, names(d.CleanUps))
			diff(t, "wake-up", time.Minute, summarize(d).WakeIn)
		})
	}
}

// Under None, what the status has of the replicas of a finished job stays until no pod changes any more.
func TestTasksOfAFinishedJobChangeOnce(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want *batchv1beta1.Aggregate
	}{
		"a replica runs on": {
			pods: []*corev1.Pod{leader, peer}, want: &batchv1beta1.Aggregate{Running: 1, Succeeded: 1},
		},
		"somebody deletes a replica, which runs until its pod is gone": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", running, deleting)},
			want: &batchv1beta1.Aggregate{Running: 1, Succeeded: 1},
		},
		"the pod of a replica is gone": {
			pods: []*corev1.Pod{leader}, want: &batchv1beta1.Aggregate{Deleted: 1, Succeeded: 1},
		},
		"all replicas have ended": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", exited(0))}, want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"all replicas have ended, and a pod of no replica has": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", exited(0)), pod("job-worker-7", exited(0))},
			want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"all replicas have ended, and a pod of no replica runs": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", exited(0)), pod("job-worker-7", running)},
			want: &batchv1beta1.Aggregate{Running: 1, Succeeded: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ran().CleanUp(batchv1beta1.CleanUpPolicyNone).Saw(time.Second, leader, peer).Sees(tc.pods...)
			diff(t, "aggregate", tc.want, d.Status.Aggregate)
		})
	}
}

// A job that failed owes its replicas nothing.
func TestCleanUpLeavesPeersNoTimeAfterAFailure(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).BackoffLimit(0).GivePeers(30*time.Second).Saw(time.Hour).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	diff(t, "deletions", []string{"job-worker-0"}, names(d.CleanUps))
	diff(t, "wake-up, when the pod is overdue", time.Minute, summarize(d).WakeIn)
}

// Once the job is gone nobody frees what a lost node holds, and the next job of the name would wait for it.
func TestTimeToLiveWaitsForThePodsOfLostNodes(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).TTL(1).LoseNodesAfter(time.Minute).
		CleanUp(batchv1beta1.CleanUpPolicyNone).
		Saw(time.Hour, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	lost := pod("job-worker-1", running, onLostNode, deleting)
	d := j.Sees(pod("job-worker-0", exited(0)), lost)
	diff(t, "deletion of the job", false, d.DeleteJob)
	diff(t, "wake-up, when the pod is deleted by force", 90*time.Second, summarize(d).WakeIn)
	diff(t, "deletion of the job once the pod is gone", true, j.Sees(pod("job-worker-0", exited(0))).DeleteJob)
}

// A finished job is deleted when its time is over, and wakes by itself for that.
func TestFinishedJobExpires(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl        *int32
		wantDelete bool
		wantWakeIn time.Duration
	}{
		"never, without a limit":  {},
		"not before its time":     {ttl: ptr.To[int32](90), wantWakeIn: 30 * time.Second},
		"when its time is over":   {ttl: ptr.To[int32](60), wantDelete: true},
		"long after":              {ttl: ptr.To[int32](1), wantDelete: true},
		"at once, if so is asked": {ttl: ptr.To[int32](0), wantDelete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", exited(0)))
			j.Spec.RunPolicy.TTLSecondsAfterFinished = tc.ttl
			d := j.Sees(pod("job-worker-0", exited(0)))
			diff(t, "deletion", tc.wantDelete, d.DeleteJob)
			diff(t, "wake", tc.wantWakeIn, summarize(d).WakeIn)
		})
	}
}

// A job is deleted only once its end is written. That may change nothing that wakes the job, such as a pod.
func TestJobThatEndsWakesWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl  int32
		want time.Time
	}{
		"at once, if no time is left": {ttl: 0, want: now},
		"later, if some time is left": {ttl: 90, want: now.Add(90 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).TTL(tc.ttl).Saw(time.Minute, pod("job-worker-0", running))
			d := j.Sees(pod("job-worker-0", exited(0)))
			diff(t, "deletion", false, d.DeleteJob)
			diff(t, "wake-up", tc.want, d.WakeAt)
		})
	}
}

// Workers of DeepSpeed and parameter servers do not end by themselves. They hold their GPUs until they are deleted.
func TestReplicasThatServeOthersGetNoTimeOnceTheseHaveEnded(t *testing.T) {
	t.Parallel()
	serving := func(r framework.Role) framework.Role {
		r.Serves = true
		return r
	}
	for name, tc := range map[string]struct {
		roles []framework.Role
		pods  []*corev1.Pod
		want  []string
	}{
		"a worker goes when the leader has succeeded, which launched all that it ran": {
			roles: []framework.Role{serving(role("worker", 2))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running)},
			want:  []string{"job-worker-1"},
		},
		"a parameter server goes when the workers have ended": {
			roles: []framework.Role{role("worker", 2), serving(role("ps", 1))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)), pod("job-ps-0", running)},
			want:  []string{"job-ps-0"},
		},
		"a parameter server goes when the pod of a worker is gone": {
			roles: []framework.Role{role("worker", 2), serving(role("ps", 1))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-ps-0", running)},
			want:  []string{"job-ps-0"},
		},
		"a parameter server stays while a worker has time to end": {
			roles: []framework.Role{role("worker", 2), serving(role("ps", 1))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running), pod("job-ps-0", running)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(tc.roles...).GivePeers(30 * time.Second).Saw(time.Hour).Sees(tc.pods...)
			diff(t, "reason", batchv1beta1.ReasonLeaderSucceeded, d.Status.Reason)
			diff(t, "deletions", tc.want, names(d.CleanUps))
		})
	}
}
