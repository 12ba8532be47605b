package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan"
)

// containersOf gives the pod one container for each argument, with the name and the state from the argument.
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

// The template determines the main container. The admission by the API server can add containers before the main one.
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
				Deletes: []string{"job-worker-0", "job-worker-1"}, RequeueIn: time.Minute, // the pods are overdue after this time
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
				RequeueIn: time.Minute, // the peer is overdue after this time
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

// If a pod is gone before the root cause of its failure is determined, the recorded exit code of the main container
// counts.
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
		RequeueIn: 62 * time.Second, // the peer is overdue after this time
	}, summarize(d))
}

// If a failed container runs again in its pod, the exit code of its first run is recorded. This code later decides
// which replicas restart, after the kubelets of the peers have had time to report failures. By then, the pod can be
// gone.
func TestFailureOfARestartedContainerIsRecordedWithItsExitCode(t *testing.T) {
	t.Parallel()
	restarted := func(p *corev1.Pod) { running(p); kubelet.Restart(p, 1, now) }
	two := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	t.Run("a rendezvous restarts after the peers have had time to report", func(t *testing.T) {
		t.Parallel()
		j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyOnFailure)).Window(2 * time.Second)
		j.Spec.DefaultRestartScope = scopeRendezvous
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
			RequeueIn: 62 * time.Second, // the peer is overdue after this time
		}, summarize(d))
	})
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

// The end of the main container is the end of the replica. A sidecar neither delays nor changes this end.
func TestSidecarsDoNotMatter(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1), sidecarRunning))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Backoff: 1, Attempt: 1,
		Failures: []string{"job-worker-1: exit code 1, counted"},
		Deletes:  []string{"job-worker-0", "job-worker-1"},
	}, summarize(d))
}
