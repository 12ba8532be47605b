package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan"
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

// The exit might be the answer to the deletion.
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

// containersOf gives the pod containers with the names and states of the arguments, in the same order.
func containersOf(states ...corev1.ContainerStatus) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers, p.Status.ContainerStatuses = nil, states
		p.Status.Phase = corev1.PodRunning
		for _, s := range states {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: s.Name})
		}
	}
}

func runsAs(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func endsAs(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"},
	}}
}

// The template determines the main container. Admission can add containers before it.
func TestAdmissionDoesNotChangeTheMainContainer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leader podOption
		want   summary
	}{
		"the leader succeeds, although the added containers keep running": {
			leader: containersOf(runsAs("proxy"), endsAs("train", 0), runsAs("agent")),
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonLeaderSucceeded,
				Deletes: []string{"job-worker-0", "job-worker-1"}, WakeIn: time.Minute, // when they are overdue
			},
		},
		"the leader runs, although the added containers have failed": {
			leader: containersOf(endsAs("proxy", 1), runsAs("train"), endsAs("agent", 2)),
			want:   summary{Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonReplicasRunning},
		},
		"the leader fails, although the added containers have succeeded": {
			leader: containersOf(endsAs("proxy", 0), endsAs("train", 3), endsAs("agent", 0)),
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonPermanentFailure,
				Failures: []string{"job-worker-0: exit code 3, counted"}, Deletes: []string{"job-worker-1"},
				WakeIn: time.Minute, // when the peer is overdue
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker := restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)
			worker.Template.Spec.Containers[0].Name = "train" // a name that the framework does not know
			allRun := containersOf(runsAs("proxy"), runsAs("train"), runsAs("agent"))
			j := job(worker).Saw(time.Minute, pod("job-worker-0", allRun), pod("job-worker-1", allRun))
			diff(t, "decision", tc.want, summarize(j.Sees(pod("job-worker-0", tc.leader), pod("job-worker-1", allRun))))
		})
	}
}

// If a pod is gone before its failure is judged, the recorded exit code of the main container counts.
func TestRecordedFailureIsThatOfTheMainContainer(t *testing.T) {
	t.Parallel()
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)).Window(2*time.Second).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Saw(0, pod("job-worker-0", containersOf(endsAs("proxy", 143), endsAs(mainContainer, 1))),
			pod("job-worker-1", running))
	diff(t, "phase of the replica", batchv1beta1.ReplicaPhaseFailed, j.Status.Tasks[0].Replicas[0].Phase)
	d := plan.Decide(j.Job, seeing(pod("job-worker-1", running)), now.Add(2*time.Second))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonPermanentFailure,
		Failures: []string{"job-worker-0: exit code 1, counted"}, Deletes: []string{"job-worker-1"},
		WakeIn: 62 * time.Second, // when the peer is overdue
	}, summarize(d))
}

// If a failed container runs again in its pod, its exit code is recorded. The exit code decides what restarts after the
// reports of the peers, even if the pod is gone by then.
func TestFailureOfARestartedContainerIsRecordedWithItsExitCode(t *testing.T) {
	t.Parallel()
	restarted := func(p *corev1.Pod) { running(p); kubelet.Restart(p, 1, now) }
	two := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	t.Run("a rendezvous restarts after the peers have had time to report", func(t *testing.T) {
		t.Parallel()
		j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyOnFailure)).Window(2 * time.Second)
		j.Spec.Rendezvous, j.Spec.DefaultRestartScope = true, batchv1beta1.RestartScopeReplica
		failed := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", restarted)}
		j.Saw(time.Minute, two...).Saw(0, failed...)
		d := plan.Decide(j.Job, seeing(failed...), now.Add(2*time.Second))
		diff(t, "decision", summary{
			Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 1, Attempt: 1,
			Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: []string{"job-worker-0", "job-worker-1"},
		}, summarize(d))
	})
	t.Run("a permanent exit code ends the job, although the pod is gone", func(t *testing.T) {
		t.Parallel()
		j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)).Window(2 * time.Second)
		j.Saw(time.Minute, two...).Saw(0, pod("job-worker-0", running), pod("job-worker-1", restarted))
		d := plan.Decide(j.Job, seeing(pod("job-worker-0", running)), now.Add(2*time.Second))
		diff(t, "decision", summary{
			Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonPermanentFailure,
			Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: []string{"job-worker-0"},
			WakeIn: 62 * time.Second, // when the peer is overdue
		}, summarize(d))
	})
}

func TestContainerStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state corev1.ContainerState
		want  batchv1beta1.ContainerStatus
	}{
		"a waiting container has a reason": {
			state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting, Reason: "ContainerCreating"},
		},
		"a running container has no reason": {
			state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerRunning},
		},
		"a terminated container has an exit code and a reason": {
			state: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			want: batchv1beta1.ContainerStatus{
				Name: "c", State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](137), Reason: "OOMKilled",
			},
		},
		"a container without a state is waiting": {
			want: batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "status", tc.want, plan.ContainerStatus(corev1.ContainerStatus{Name: "c", State: tc.state}))
		})
	}
}

// Tasks keep how each replica ended, even after its pod is gone.
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

// withLast sets the last termination state of the main container of a pod.
func withLast(code int32) podOption {
	return func(p *corev1.Pod) {
		main := &p.Status.ContainerStatuses[0]
		main.LastTerminationState = endsAs(main.Name, code).State
	}
}

// The entry of a failed replica has the exit of its main container. Other containers are recorded in their current
// state.
func TestContainersOfAFailedReplica(t *testing.T) {
	t.Parallel()
	evicted := func(p *corev1.Pod) {
		running(p)
		p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	}
	restartedSidecar := runsAs("sidecar")
	restartedSidecar.LastTerminationState = endsAs("sidecar", 9).State
	ended := func(code int32) batchv1beta1.ContainerStatus {
		return batchv1beta1.ContainerStatus{
			Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: &code, Reason: "Error",
		}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []batchv1beta1.ContainerStatus
	}{
		"the exit of a main container that runs again is recorded": {
			pod:  pod("job-worker-1", running, withLast(3)),
			want: []batchv1beta1.ContainerStatus{ended(3)},
		},
		"the current exit of a main container that ended twice is recorded": {
			pod:  pod("job-worker-1", exited(2), withLast(3)),
			want: []batchv1beta1.ContainerStatus{ended(2)},
		},
		"a main container is recorded as running if the kubelet reports no exit for it": {
			pod:  pod("job-worker-1", evicted),
			want: []batchv1beta1.ContainerStatus{{Name: mainContainer, State: batchv1beta1.ContainerRunning}},
		},
		"a sidecar that runs again is recorded as running": {
			pod: pod("job-worker-1", containersOf(endsAs(mainContainer, 2), restartedSidecar)),
			want: []batchv1beta1.ContainerStatus{
				ended(2), {Name: "sidecar", State: batchv1beta1.ContainerRunning},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ran().Scope(scopeReplica).BackoffLimit(0).Sees(pod("job-worker-0", running), tc.pod)
			entry := d.Status.Tasks[0].Replicas[1]
			diff(t, "phase", batchv1beta1.ReplicaPhaseFailed, entry.Phase)
			diff(t, "containers", tc.want, entry.Containers)
		})
	}
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

// READY of a finished job does not change, even if the pods that the job keeps do.
func TestReadyOfAFinishedJobStays(t *testing.T) {
	t.Parallel()
	j := ran().Deadline(60).CleanUp(batchv1beta1.CleanUpPolicyNone).
		Saw(0, pod("job-worker-0", running), pod("job-worker-1", running))
	d := j.Sees(pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1)))
	diff(t, "aggregate", &batchv1beta1.Aggregate{Failed: 2}, d.Status.Aggregate)
	diff(t, "READY", "2/2", d.Status.Ready)
}

// A replica is Deleted while its job pauses, since the job has given it up.
func TestPhasesOfReplicasThatThePauseDeletes(t *testing.T) {
	t.Parallel()
	evicted := func() *jobBuilder { return ran().SawIn(evictedFrom(seeing(runningPods()...))) }
	next := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", running, again(1))}
	failed := []*corev1.Pod{pod("job-worker-0", running, again(1)), pod("job-worker-1", exited(1), again(1))}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen plan.Observation
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
