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
	// Each job fails because of its deadline. At that time, its pods are in all the states that a pod can be in.
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
		// left are the pods that remain after the clean-up.
		left []*corev1.Pod
		// want is the aggregate after the clean-up.
		want batchv1beta1.Aggregate
	}{
		"Unfinished keeps ended pods with their logs": {
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
		"All keeps no pod": {
			policy:      batchv1beta1.CleanUpPolicyAll,
			wantDeletes: []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3", "job-worker-4"},
			want:        batchv1beta1.Aggregate{Deleted: 7},
		},
		"None keeps all pods, and the tasks stay while a pod runs": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left:   pods[:5],
			want:   batchv1beta1.Aggregate{Running: 1, Pending: 1, Succeeded: 2, Failed: 1, Deleted: 2},
		},
		"None keeps all pods, and the tasks change when only sidecars run": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left: append(ended, pod("job-worker-0", exited(0), sidecarRunning), pod("job-worker-1", exited(1), sidecarRunning),
				pods[4]),
			want: batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
		"None keeps all pods, and the tasks change when all pods have ended": {
			policy: batchv1beta1.CleanUpPolicyNone,
			left: append(ended, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)),
				pod("job-worker-4", exited(0))),
			want: batchv1beta1.Aggregate{Succeeded: 3, Failed: 2, Deleted: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The seventh replica never has a pod.
			j := job(restarting(role("worker", 7), batchv1beta1.RestartPolicyNever)).
				Scope(scopeReplica).Deadline(60).CleanUp(tc.policy).Saw(time.Minute)
			end := j.Sees(pods...)
			diff(t, "reason of FailureTarget", batchv1beta1.ReasonDeadlineExceeded,
				conditionOf(end, batchv1beta1.ConditionFailureTarget).Reason)
			diff(t, "deletions", tc.wantDeletes, names(end.CleanUps))

			j.Status = end.Status
			diff(t, "deletions of a second reconcile", tc.wantDeletes, names(j.Sees(pods...).CleanUps))
			diff(t, "status of a second reconcile", end.Status, j.Sees(pods...).Status)

			done := j.Sees(tc.left...)
			diff(t, "deletions at the end", []string(nil), names(done.CleanUps))
			diff(t, "final phase", batchv1beta1.JobPhaseFailed, done.Status.Phase)
			diff(t, "final aggregate", &tc.want, done.Status.Aggregate)

			j.Status = done.Status
			diff(t, "status of a last reconcile", done.Status, j.Sees(tc.left...).Status)
		})
	}
}

// After the success of the leader, its peers might still be writing their results.
func TestCleanUpGivesPeersTimeAfterASuccess(t *testing.T) {
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
	wantImmediately := []string{"job-worker-0", "job-worker-3"}
	diff(t, "immediate deletions of pods whose main container has ended", wantImmediately, names(d.CleanUps))
	diff(t, "time until the requeue", 30*time.Second, summarize(d).RequeueIn)

	j.Status = d.Status
	pods = pods[:3]
	late := plan.Decide(j.Job, seeing(pods[1:]...), now.Add(29*time.Second))
	diff(t, "deletions before the end of the grace period", []string(nil), names(late.CleanUps))
	diff(t, "requeue before the end of the grace period", 30*time.Second, summarize(late).RequeueIn)
	diff(t, "status before the end of the grace period", d.Status, late.Status)

	late = plan.Decide(j.Job, seeing(pods[1:]...), now.Add(30*time.Second))
	diff(t, "deletions after the grace period", []string{"job-worker-1"}, names(late.CleanUps))
	diff(t, "requeue after the grace period, when the pod is overdue", 90*time.Second, summarize(late).RequeueIn)

	exitedMeanwhile := plan.Decide(j.Job, seeing(pod("job-worker-1", exited(0)), pods[2]), now.Add(10*time.Second))
	diff(t, "deletions once all have ended", []string(nil), names(exitedMeanwhile.CleanUps))
	diff(t, "phase once all have ended", batchv1beta1.JobPhaseSucceeded, exitedMeanwhile.Status.Phase)
	diff(t, "READY once all have ended", "4/4", exitedMeanwhile.Status.Ready)
	diff(t, "aggregate once all have ended", &batchv1beta1.Aggregate{Succeeded: 4}, exitedMeanwhile.Status.Aggregate)
}

// The API server carries out a creation late, after the leader has succeeded and its first pod is gone. The late pod
// gets no time to end by itself.
func TestCleanUpGivesAPodOfAnEndedReplicaNoTime(t *testing.T) {
	t.Parallel()
	succeeded := job(role("worker", 2)).GivePeers(30*time.Second).
		Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	d := succeeded.Sees(another("job-worker-0"), pod("job-worker-1", running))
	diff(t, "immediate deletions", []string{"job-worker-0"}, names(d.CleanUps))
}

// After the success of the leader, a running pod that belongs to no replica gets time to end, like the peers of the
// leader.
func TestCleanUpOfPodsOfNoReplica(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", running)
	foreign := func(options ...podOption) *corev1.Pod { return pod("job-worker-7", options...) }
	for name, tc := range map[string]struct {
		policy      batchv1beta1.CleanUpPolicy
		pods        []*corev1.Pod
		wantDeletes []string
	}{
		"a running pod of no replica gets time to end": {
			policy: batchv1beta1.CleanUpPolicyAll, pods: []*corev1.Pod{leader, peer, foreign(running)},
			wantDeletes: []string{"job-worker-0"},
		},
		"an ended pod of no replica is deleted immediately": {
			policy: batchv1beta1.CleanUpPolicyAll, pods: []*corev1.Pod{leader, peer, foreign(exited(0))},
			wantDeletes: []string{"job-worker-0", "job-worker-7"},
		},
		"an ended pod of no replica stays with its logs": {
			policy: batchv1beta1.CleanUpPolicyUnfinished, pods: []*corev1.Pod{leader, peer, foreign(exited(0))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ran().CleanUp(tc.policy).GivePeers(time.Minute).Sees(tc.pods...)
			diff(t, "deletions", tc.wantDeletes, names(d.CleanUps))
			diff(t, "time until the requeue", time.Minute, summarize(d).RequeueIn)
		})
	}
}

// With policy None, the tasks of a finished job change only once, when no pod changes anymore.
func TestTasksOfAFinishedJobChangeOnce(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", running)
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want *batchv1beta1.Aggregate
	}{
		"the tasks stay while a replica runs": {
			pods: []*corev1.Pod{leader, peer}, want: &batchv1beta1.Aggregate{Running: 1, Succeeded: 1},
		},
		"the tasks stay while the pod of a replica is being deleted": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", running, deleting)},
			want: &batchv1beta1.Aggregate{Running: 1, Succeeded: 1},
		},
		"the tasks change when the pod of a running replica is gone": {
			pods: []*corev1.Pod{leader}, want: &batchv1beta1.Aggregate{Deleted: 1, Succeeded: 1},
		},
		"the tasks change when all replicas have ended": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", exited(0))}, want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"the tasks change when all replicas and a pod of no replica have ended": {
			pods: []*corev1.Pod{leader, pod("job-worker-1", exited(0)), pod("job-worker-7", exited(0))},
			want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"the tasks stay while a pod of no replica runs": {
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

// With policy All, the replicas of a finished job become Deleted together, in one write.
func TestTasksOfAFinishedJobChangeWhenTheLastPodIsGone(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want *batchv1beta1.Aggregate
	}{
		"the tasks stay while the clean-up deletes a pod": {
			pods: []*corev1.Pod{peer}, want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"the tasks stay while a pod of no replica has time to end": {
			pods: []*corev1.Pod{pod("job-worker-7", running)}, want: &batchv1beta1.Aggregate{Succeeded: 2},
		},
		"the tasks change when no pod is left": {want: &batchv1beta1.Aggregate{Deleted: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ran().CleanUp(batchv1beta1.CleanUpPolicyAll).GivePeers(time.Minute).Saw(time.Second, leader, peer).
				Sees(tc.pods...)
			diff(t, "aggregate", tc.want, d.Status.Aggregate)
		})
	}
}

// After a failure, the remaining pods are deleted immediately.
func TestCleanUpGivesPeersNoTimeAfterAFailure(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).BackoffLimit(0).GivePeers(30*time.Second).Saw(time.Hour).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	diff(t, "deletions", []string{"job-worker-0"}, names(d.CleanUps))
	diff(t, "requeue when the pod is overdue", time.Minute, summarize(d).RequeueIn)
}

// An expired job stays while it has pods on lost nodes. Once the job is gone, nobody deletes these pods by force. The
// next job of the same name would wait for them.
func TestExpiredJobWaitsForPodsOnLostNodes(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).TTL(1).LoseNodesAfter(time.Minute).
		CleanUp(batchv1beta1.CleanUpPolicyNone).
		Saw(time.Hour, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	lost := pod("job-worker-1", running, onLostNode, deleting)
	d := j.Sees(pod("job-worker-0", exited(0)), lost)
	diff(t, "deletion of the job", false, d.DeleteJob)
	diff(t, "requeue when the pod is deleted by force", 90*time.Second, summarize(d).RequeueIn)
	diff(t, "deletion of the job once the pod is gone", true, j.Sees(pod("job-worker-0", exited(0))).DeleteJob)
}

// A finished job is deleted when its time to live is over. Until then, the decision requeues the job for that time.
func TestFinishedJobExpires(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl           *int32
		wantDelete    bool
		wantRequeueIn time.Duration
	}{
		"a job without a time to live stays":                    {},
		"a job stays until its time to live is over":            {ttl: ptr.To[int32](90), wantRequeueIn: 30 * time.Second},
		"a job is deleted when its time to live is over":        {ttl: ptr.To[int32](60), wantDelete: true},
		"a job is deleted even long after its time to live":     {ttl: ptr.To[int32](1), wantDelete: true},
		"a job with a time to live of 0 is deleted immediately": {ttl: ptr.To[int32](0), wantDelete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", exited(0)))
			j.Spec.RunPolicy.TTLSecondsAfterFinished = tc.ttl
			d := j.Sees(pod("job-worker-0", exited(0)))
			diff(t, "deletion", tc.wantDelete, d.DeleteJob)
			diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
		})
	}
}

// A job is deleted only after its end is written. The write might cause no event, so the decision that ends the job
// requeues it.
func TestJobThatEndsIsRequeuedForItsDeletion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl  int32
		want time.Time
	}{
		"a job with a time to live of 0 is requeued immediately": {ttl: 0, want: now},
		"a job with a time to live is requeued when it is over":  {ttl: 90, want: now.Add(90 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).TTL(tc.ttl).Saw(time.Minute, pod("job-worker-0", running))
			d := j.Sees(pod("job-worker-0", exited(0)))
			diff(t, "deletion", false, d.DeleteJob)
			diff(t, "requeue", tc.want, d.RequeueAt)
		})
	}
}

func TestPeersHaveTheTimeOfTheirRoleOrOfTheJob(t *testing.T) {
	t.Parallel()
	evaluator := role("evaluator", 1)
	evaluator.PeerGrace = 10 * time.Minute
	short := role("reader", 1)
	short.PeerGrace = time.Second
	for name, tc := range map[string]struct {
		seconds *int32
		after   time.Duration
		want    []string
	}{
		"the time of the controller is the minimum": {after: 29 * time.Second},
		"a role has a longer time": {
			after: 599 * time.Second, want: []string{"job-reader-0", "job-worker-1"},
		},
		"the longer time ends": {
			after: 10 * time.Minute, want: []string{"job-evaluator-0", "job-reader-0", "job-worker-1"},
		},
		"the job can shorten the time of all roles": {
			seconds: new(int32(5)), after: 5 * time.Second,
			want: []string{"job-evaluator-0", "job-reader-0", "job-worker-1"},
		},
		"the job can extend it": {seconds: new(int32(3600)), after: 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2), evaluator, short).GivePeers(30 * time.Second).Saw(time.Hour)
			j.Spec.RunPolicy.PeerGracePeriodSeconds = tc.seconds
			peers := []*corev1.Pod{
				pod("job-worker-1", running), pod("job-evaluator-0", running), pod("job-reader-0", running),
			}
			j.Status = j.Sees(append(peers, pod("job-worker-0", exited(0)))...).Status
			diff(t, "deletions", tc.want, names(plan.Decide(j.Job, seeing(peers...), now.Add(tc.after)).CleanUps))
		})
	}
}

// DeepSpeed workers and parameter servers do not end by themselves. They hold their GPUs until they are deleted.
func TestServersGetNoTimeOnceTheOtherReplicasHaveEnded(t *testing.T) {
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
		"a worker is deleted when the leader that launched its processes has succeeded": {
			roles: []framework.Role{serving(role("worker", 2))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", running)},
			want:  []string{"job-worker-1"},
		},
		"a parameter server is deleted when the workers have ended": {
			roles: []framework.Role{role("worker", 2), serving(role("ps", 1))},
			pods:  []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(1)), pod("job-ps-0", running)},
			want:  []string{"job-ps-0"},
		},
		"a parameter server is deleted when the pod of a worker is gone": {
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
