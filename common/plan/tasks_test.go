package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestAggregateAndTasksFollowTheReplicas(t *testing.T) {
	t.Parallel()
	j := job(role("master", 1), restarting(role("worker", 7), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica)
	d := j.Sees(
		pod("job-master-0", running, onNode("node-1")),
		pod("job-worker-0", imagePull),
		pod("job-worker-1", exited(0), sidecarRunning),
		pod("job-worker-2", exited(9)),
		pod("job-worker-3", unreachable),
		pod("job-worker-4", running, deleting),
		pod("job-worker-5"),
	)
	diff(t, "aggregate",
		&batchv1beta1.Aggregate{Creating: 1, Pending: 2, Running: 2, Succeeded: 1, Failed: 1, Unknown: 1}, d.Status.Aggregate)
	diff(t, "replicas", int32(7), d.Status.Replicas)

	ran := func(name string) batchv1beta1.ContainerStatus {
		return batchv1beta1.ContainerStatus{Name: name, State: batchv1beta1.ContainerRunning}
	}
	ended := func(code int32, reason string) batchv1beta1.ContainerStatus {
		return batchv1beta1.ContainerStatus{
			Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: &code, Reason: reason,
		}
	}
	diff(t, "tasks", []batchv1beta1.TaskStatus{
		{Type: "master", Replicas: []batchv1beta1.ReplicaStatus{{
			Name: "job-master-0", UID: "job-master-0-uid-0", Phase: batchv1beta1.ReplicaPhaseRunning, Node: "node-1",
			Containers: []batchv1beta1.ContainerStatus{ran(mainContainer)},
		}}},
		{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{
			{
				Name: "job-worker-0", UID: "job-worker-0-uid-0", Phase: batchv1beta1.ReplicaPhasePending,
				Containers: []batchv1beta1.ContainerStatus{
					{Name: mainContainer, State: batchv1beta1.ContainerWaiting, Reason: "ImagePullBackOff"},
				},
			},
			{
				Name: "job-worker-1", UID: "job-worker-1-uid-0", Phase: batchv1beta1.ReplicaPhaseSucceeded,
				Containers: []batchv1beta1.ContainerStatus{ended(0, "Completed"), ran("sidecar")},
			},
			{
				Name: "job-worker-2", UID: "job-worker-2-uid-0", Phase: batchv1beta1.ReplicaPhaseFailed,
				Containers: []batchv1beta1.ContainerStatus{ended(9, "Error")},
			},
			{Name: "job-worker-3", UID: "job-worker-3-uid-0", Phase: batchv1beta1.ReplicaPhaseUnknown},
			{
				Name: "job-worker-4", UID: "job-worker-4-uid-0", Phase: batchv1beta1.ReplicaPhaseRunning,
				Containers: []batchv1beta1.ContainerStatus{ran(mainContainer)},
			},
			{Name: "job-worker-5", UID: "job-worker-5-uid-0", Phase: batchv1beta1.ReplicaPhasePending},
			{Name: "job-worker-6", Phase: batchv1beta1.ReplicaPhaseCreating},
		}},
	}, d.Status.Tasks)
}

// The program might have exited because of the deletion.
func TestAPodThatExitsWhileItIsDeletedHasNotEndedItsReplica(t *testing.T) {
	t.Parallel()
	for name, exit := range map[string]podOption{"with 0": exited(0), "with an error": exited(143)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(role("worker", 2)).Scope(scopeReplica).Sees(
				pod("job-worker-0", running), pod("job-worker-1", exit, deleting))
			diff(t, "phase", batchv1beta1.ReplicaPhaseCreating, d.Status.Tasks[0].Replicas[1].Phase)
		})
	}
}

// After the pod of a replica is gone, the tasks of the status still show how the replica ended.
func TestTasksOfAFinishedJobOutliveItsPods(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", exited(0), onNode("node-1")), pod("job-worker-1", exited(3))}
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).Saw(time.Minute, pods...)
	diff(t, "phase", batchv1beta1.JobPhaseSucceeded, j.Status.Phase)
	want := []batchv1beta1.TaskStatus{{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{
		{
			Name: "job-worker-0", UID: "job-worker-0-uid-0", Phase: batchv1beta1.ReplicaPhaseSucceeded, Node: "node-1",
			Containers: []batchv1beta1.ContainerStatus{{
				Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](0), Reason: "Completed",
			}},
		},
		{
			Name: "job-worker-1", UID: "job-worker-1-uid-0", Phase: batchv1beta1.ReplicaPhaseFailed,
			Containers: []batchv1beta1.ContainerStatus{{
				Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](3), Reason: "Error",
			}},
		},
	}}}
	diff(t, "tasks with the pods", want, j.Sees(pods...).Status.Tasks)
	diff(t, "tasks without the pods", want, j.Sees().Status.Tasks)
}

// A stale cache can show a pod as it was before its entry was written. The entry is then kept.
func TestEntryIsKeptIfThePodIsOlder(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	j := job(role("worker", 2)).Saw(time.Minute, worker0, pod("job-worker-1", running, onNode("node-1")))
	diff(t, "tasks", j.Status.Tasks, j.Sees(worker0, pod("job-worker-1")).Status.Tasks)
}

// An elastic job continues without a replica that is being deleted, as if the replica had not run yet.
func TestReplicaThatIsDeletedWhileItStarts(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want batchv1beta1.ReplicaPhase
	}{
		"a deleted replica of an elastic job is Creating": {
			job: job(role("worker", 0)).Elastic(1, 2), want: batchv1beta1.ReplicaPhaseCreating,
		},
		"a deleted replica of another job is Running until its pod is gone": {
			job: job(role("worker", 2)), want: batchv1beta1.ReplicaPhaseRunning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Saw(time.Minute, worker0, pod("job-worker-1")).Sees(worker0, pod("job-worker-1", running, deleting))
			diff(t, "phase of the replica", tc.want, d.Status.Tasks[0].Replicas[1].Phase)
		})
	}
}

// Only a replica that waits for its restart has a restartTime.
func TestRestartTimeIsCleared(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	waiting := func() *jobBuilder {
		return ran().Scope(scopeReplica).Saw(time.Hour, worker0, pod("job-worker-1", exitedAgo(1, time.Hour))).
			Saw(0, worker0, pod("job-worker-1", exited(1), againAlone(1)))
	}
	obsolete := pod("job-worker-1", exited(1), againAlone(1))
	const pending, gone = batchv1beta1.ReplicaPhasePending, batchv1beta1.ReplicaPhaseDeleted
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want batchv1beta1.ReplicaStatus
	}{
		"restartTime is set while the replica waits for its restart": {
			job: waiting(), pods: []*corev1.Pod{worker0, obsolete},
			want: batchv1beta1.ReplicaStatus{
				Phase: batchv1beta1.ReplicaPhaseCreating, Attempt: 2, RestartTime: new(ago(-10 * time.Second)),
			},
		},
		"restartTime is cleared when the replica has a pod": {
			job: waiting(), pods: []*corev1.Pod{worker0, pod("job-worker-1", againAlone(2))},
			want: batchv1beta1.ReplicaStatus{Phase: pending, Attempt: 2, UID: "job-worker-1-uid-0.2"},
		},
		"restartTime is cleared if the job ends before the restart": {
			job: waiting().Deadline(1), want: batchv1beta1.ReplicaStatus{Phase: gone, Attempt: 2},
		},
		"restartTime is cleared if the job ends while the earlier pod still exists": {
			job: waiting().Deadline(1), pods: []*corev1.Pod{obsolete},
			want: batchv1beta1.ReplicaStatus{Phase: gone, Attempt: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.Name = "job-worker-1"
			diff(t, "entry of the replica", tc.want, tc.job.Sees(tc.pods...).Status.Tasks[0].Replicas[1])
		})
	}
}

// READY of a finished job does not change, even if pods that the job has kept end later.
func TestReadyOfAFinishedJobStays(t *testing.T) {
	t.Parallel()
	j := ran().Deadline(60).CleanUp(batchv1beta1.CleanUpPolicyNone).
		Saw(0, pod("job-worker-0", running), pod("job-worker-1", running))
	d := j.Sees(pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1)))
	diff(t, "aggregate", &batchv1beta1.Aggregate{Failed: 2}, d.Status.Aggregate)
	diff(t, "READY", "2/2", d.Status.Ready)
}

// While a job pauses, the phase of its replicas is Deleted, although their pods might still be running.
func TestPhasesOfReplicasThatThePauseDeletes(t *testing.T) {
	t.Parallel()
	evicted := func() *jobBuilder { return ran().SawIn(evictedFrom(seeing(runningPods()...))) }
	next := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1))}
	failed := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", exited(1), again(1))}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		want batchv1beta1.Aggregate
	}{
		"the replicas of an evicted job are created again": {
			job: evicted(), seen: queued(), want: batchv1beta1.Aggregate{Creating: 2},
		},
		"the replicas of an evicted job are deleted when it is paused": {
			job: evicted().Paused(true), seen: queued(), want: batchv1beta1.Aggregate{Deleted: 2},
		},
		"a failure before a second pause is recorded until its root cause is known": {
			job:  wasPaused().Paused(false).Saw(0).Saw(0, next...).Window(2 * time.Second).Paused(true),
			seen: seeing(failed...), want: batchv1beta1.Aggregate{Running: 1, Failed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "aggregate", &tc.want, tc.job.DecideAt(now, tc.seen).Status.Aggregate)
		})
	}
}

// The tasks must have the end of the last replica when the job finishes, because the clean-up then deletes the pod of
// this replica.
func TestTasksOfAJobThatFinishesHaveTheEndOfItsLastReplica(t *testing.T) {
	t.Parallel()
	j := ran().CleanUp(batchv1beta1.CleanUpPolicyAll).GivePeers(time.Minute).
		Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	d := j.Sees(pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)))
	diff(t, "pods to clean up", []string{"job-worker-0", "job-worker-1"}, names(d.CleanUps))
	diff(t, "aggregate", &batchv1beta1.Aggregate{Succeeded: 2}, d.Status.Aggregate)
}

func TestAReplicaThatWaitsIsNotReadyBeforeItsJobHasFinished(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).GivePeers(time.Minute).Saw(time.Minute).
		Sees(pod("job-worker-0", exited(0)), pod("job-worker-1"))
	diff(t, "READY", "1/2", d.Status.Ready)
}
