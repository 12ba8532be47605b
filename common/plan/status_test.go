package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

func imagePull(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}}
}

func TestRunningSaysWhatTheJobWaitsFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job       *jobBuilder
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		want      condition
		wantReady string
	}{
		"nothing: every replica runs": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "2/2",
		},
		"nothing: a replica that is done is waited for no more": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "2/2",
		},
		"nothing: a replica that runs need not be ready": {
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].Ready = false
			})},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "1/2",
		},
		"its pods": {
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonCreating, "2 of 2 replicas do not run yet: job-worker-0 is being created",
			},
			wantReady: "0/2",
		},
		"its containers": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1")},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending, "1 of 2 replicas do not run yet: job-worker-1 is starting",
			},
			wantReady: "1/2",
		},
		"the main container, although a sidecar runs": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", sidecarRunning)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending, "1 of 2 replicas do not run yet: job-worker-1 is starting",
			},
			wantReady: "1/2",
		},
		"a node: what cannot start by itself is named before what can": {
			pods:      []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", unschedulable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonUnschedulable,
				"2 of 2 replicas do not run yet: job-worker-1 cannot be scheduled: 0/3 nodes are available",
			},
			wantReady: "0/2",
		},
		"an image: the first of what cannot start is named": {
			pods:      []*corev1.Pod{pod("job-worker-0", imagePull), pod("job-worker-1", unschedulable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonImagePull,
				"2 of 2 replicas do not run yet: container main of job-worker-0 cannot start: ImagePullBackOff: no such image",
			},
			wantReady: "0/2",
		},
		"a replica that somebody deleted": {
			job:       job(role("worker", 2)).Scope(scopeReplica),
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, deleting)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting, "1 of 2 replicas do not run yet: job-worker-1 is being replaced",
			},
			wantReady: "1/2",
		},
		"a restart that is not due": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))).
				Saw(0, pod("job-worker-0", running), pod("job-worker-1", exited(1), againAlone(1))),
			pods:      []*corev1.Pod{pod("job-worker-0", running)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas do not run yet: job-worker-1 restarts at 12:00:10 UTC",
			},
			wantReady: "1/2",
		},
		"a restart that is due": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))),
			pods:      []*corev1.Pod{pod("job-worker-0", running)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas do not run yet: job-worker-1 is being created again",
			},
			wantReady: "1/2",
		},
		"the node of a peer": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unreachable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas do not run yet: the state of job-worker-1 cannot be obtained",
			},
			wantReady: "1/2",
		},
		"the node of the leader, which leaves the job's own state unknown": {
			pods:      []*corev1.Pod{pod("job-worker-0", unreachable), pod("job-worker-1", running)},
			wantPhase: batchv1beta1.JobPhaseUnknown,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas do not run yet: the state of job-worker-0 cannot be obtained",
			},
			wantReady: "1/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job
			if j == nil {
				j = job(role("worker", 2))
			}
			d := j.Sees(tc.pods...)
			diff(t, "Running", tc.want, conditionOf(d, batchv1beta1.ConditionRunning))
			diff(t, "phase", tc.wantPhase, d.Status.Phase)
			diff(t, "reason", tc.want.Reason, d.Status.Reason)
			diff(t, "ready", tc.wantReady, d.Status.Ready)
			diff(t, "Initialized", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionInitialized).Status)
		})
	}
}

// What has no effect is said once, in an event, and stays in the message of Initialized.
func TestNotice(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	j.Spec.Notice = "spec.elastic has no effect"
	const message = "the job is accepted and its replicas are created as they are needed; spec.elastic has no effect"
	first := j.Sees()
	diff(t, "event", []report.Event{{Type: "Warning", Reason: "NoEffect", Action: "Plan", Message: j.Spec.Notice}}, first.Events)
	diff(t, "Initialized", condition{metav1.ConditionTrue, "Accepted", message}, conditionOf(first, batchv1beta1.ConditionInitialized))
	second := j.Saw(0).Sees()
	diff(t, "events then", []report.Event(nil), second.Events)
	diff(t, "Initialized then", condition{metav1.ConditionTrue, "Accepted", message}, conditionOf(second, batchv1beta1.ConditionInitialized))
}

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
		return batchv1beta1.ContainerStatus{Name: mainContainer, State: batchv1beta1.ContainerTerminated, ExitCode: &code, Reason: reason}
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

// containersOf gives the pod containers in these states, named and ordered as the arguments are.
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

// The main container is the one that the template names. It need not be the first of the pod.
func TestAdmissionDoesNotChangeTheMainContainer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leader podOption
		want   summary
	}{
		"it succeeds, and the added containers run on": {
			leader: containersOf(runsAs("proxy"), endsAs("train", 0), runsAs("agent")),
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonLeaderSucceeded,
				Deletes: []string{"job-worker-0", "job-worker-1"},
			},
		},
		"it runs, and the added containers have failed": {
			leader: containersOf(endsAs("proxy", 1), runsAs("train"), endsAs("agent", 2)),
			want:   summary{Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonReplicasRunning},
		},
		"it fails, and the added containers have succeeded": {
			leader: containersOf(endsAs("proxy", 0), endsAs("train", 3), endsAs("agent", 0)),
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonPermanentFailure,
				Failures: []string{"job-worker-0: exit code 3, counted"}, Deletes: []string{"job-worker-1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker := restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)
			worker.Template.Spec.Containers[0].Name = "train" // which is no name that the framework knows
			allRun := containersOf(runsAs("proxy"), runsAs("train"), runsAs("agent"))
			j := job(worker).Saw(time.Minute, pod("job-worker-0", allRun), pod("job-worker-1", allRun))
			diff(t, "decision", tc.want, summarize(j.Sees(pod("job-worker-0", tc.leader), pod("job-worker-1", allRun))))
		})
	}
}

// A failure whose pod is gone before it was judged is that of the main container.
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
	}, summarize(d))
}

// A failure whose container runs again in its pod is recorded with the exit code: it decides what restarts, after the
// reports of the peers and also if the pod is gone by then.
func TestFailureOfARestartedContainerIsRecordedWithItsExitCode(t *testing.T) {
	t.Parallel()
	restarted := func(p *corev1.Pod) { running(p); kubelet.Restart(p, 1, now) }
	two := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	t.Run("a rendezvous that it ended restarts once the peers had time to report", func(t *testing.T) {
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
	t.Run("its exit code is permanent, although its pod is gone", func(t *testing.T) {
		t.Parallel()
		j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)).Window(2 * time.Second)
		j.Saw(time.Minute, two...).Saw(0, pod("job-worker-0", running), pod("job-worker-1", restarted))
		d := plan.Decide(j.Job, seeing(pod("job-worker-0", running)), now.Add(2*time.Second))
		diff(t, "decision", summary{
			Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonPermanentFailure,
			Failures: []string{"job-worker-1: exit code 1, counted"}, Deletes: []string{"job-worker-0"},
		}, summarize(d))
	})
}

// The outcome of the main container is the replica's, at once: a sidecar neither delays nor changes it.
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

// ReplicaFailure is True from a failure on until every replica runs again.
func TestReplicaFailureLastsUntilAllRunAgain(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	var got []condition
	for _, p := range []*corev1.Pod{
		pod("job-worker-0", running),
		pod("job-worker-0", exited(1)),
		pod("job-worker-0", exited(1), deleting),
		pod("job-worker-0", again(1)),
		pod("job-worker-0", running, again(1)),
	} {
		j.Saw(0, p)
		got = append(got, conditionOf(plan.Decision{Status: j.Status}, batchv1beta1.ConditionReplicaFailure))
	}
	failed := condition{metav1.ConditionTrue, batchv1beta1.ReasonError, "replica job-worker-0 failed with exit code 1 (Error) and is being replaced"}
	diff(t, "ReplicaFailure over time", []condition{
		{},
		failed, failed, failed,
		{metav1.ConditionFalse, batchv1beta1.ReasonRecovered, "every replica runs again"},
	}, got)
}

func TestReplicaFailureNamesAReplicaThatStaysFailed(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).Scope(scopeReplica).BackoffLimit(0).
		Sees(pod("job-worker-0", running), pod("job-worker-1", exited(3)))
	diff(t, "ReplicaFailure",
		condition{metav1.ConditionTrue, batchv1beta1.ReasonError, "replica job-worker-1 failed with exit code 3 (Error)"},
		conditionOf(d, batchv1beta1.ConditionReplicaFailure))
	diff(t, "Running", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionRunning).Status)
}

func TestInvalidTemplateHoldsCreations(t *testing.T) {
	t.Parallel()
	const refused = `the template of type "worker" has no container`
	j := job(role("worker", 2)).Refusing(refused)
	d := j.Sees()
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonInvalidTemplate,
	}, summarize(d))
	diff(t, "Initialized", condition{metav1.ConditionFalse, batchv1beta1.ReasonInvalidTemplate, refused},
		conditionOf(d, batchv1beta1.ConditionInitialized))

	t.Run("replicas that run already run on", func(t *testing.T) {
		t.Parallel()
		d := j.Sees(pod("job-worker-0", running))
		diff(t, "deletions", []string(nil), names(d.Deletes))
		diff(t, "reason", batchv1beta1.ReasonInvalidTemplate, d.Status.Reason)
	})
	t.Run("it is over with a template that works", func(t *testing.T) {
		t.Parallel()
		mended := job(role("worker", 2))
		mended.Status = d.Status
		d := mended.Sees()
		diff(t, "creations", []string{created("job-worker-0", "0"), created("job-worker-1", "0")}, summarize(d).Creates)
		diff(t, "Initialized", batchv1beta1.ReasonAccepted, conditionOf(d, batchv1beta1.ConditionInitialized).Reason)
	})
}

// What the API server refused stays readable until it works: it is tried again and again.
func TestRefusalStaysUntilCreationWorks(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for _, reason := range []string{
		batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed, batchv1beta1.ReasonAdmissionChangedPod,
	} {
		refused := func() *jobBuilder {
			j := job(role("worker", 2)).Saw(time.Minute)
			meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{
				Type: batchv1beta1.ConditionInitialized, Status: metav1.ConditionFalse, Reason: reason, Message: "refused",
				ObservedGeneration: 1, LastTransitionTime: ago(time.Minute),
			})
			return j
		}
		for name, tc := range map[string]struct {
			pods       []*corev1.Pod
			noService  bool
			noPolicy   bool
			want       string
			wantReason string
		}{
			"while a pod is missing": {pods: both[:1], want: reason, wantReason: reason},
			"while a pod is of no attempt": {
				pods: []*corev1.Pod{both[0], pod("job-worker-1", withoutAttempt)}, want: reason, wantReason: reason,
			},
			"while the Service is":       {pods: both, noService: true, want: reason, wantReason: reason},
			"while the NetworkPolicy is": {pods: both, noPolicy: true, want: reason, wantReason: reason},
			"until everything was there": {pods: both, want: batchv1beta1.ReasonAccepted, wantReason: batchv1beta1.ReasonReplicasRunning},
		} {
			t.Run(reason+" "+name, func(t *testing.T) {
				t.Parallel()
				seen := seeing(tc.pods...)
				seen.HasService, seen.NeedsNetworkPolicy = !tc.noService, tc.noPolicy
				j := refused()
				d := plan.Decide(j.Job, seen, now)
				diff(t, "Initialized", tc.want, conditionOf(d, batchv1beta1.ConditionInitialized).Reason)
				diff(t, "reason", tc.wantReason, d.Status.Reason)
				if tc.want == reason {
					diff(t, "the condition", meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionInitialized),
						meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionInitialized))
				}
			})
		}
	}
}

// A condition says since when it holds and of which spec it speaks.
func TestConditionsKeepTheirTransitionTime(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running)}
	j := job(role("worker", 1)).Saw(time.Hour, pods...)
	j.Generation = 2
	diff(t, "Running", &metav1.Condition{
		Type: batchv1beta1.ConditionRunning, Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonReplicasRunning,
		Message: "all 1 replicas run or have ended", ObservedGeneration: 2, LastTransitionTime: ago(time.Hour),
	}, meta.FindStatusCondition(j.Sees(pods...).Status.Conditions, batchv1beta1.ConditionRunning))
}

// An event tells of a change, not of a state.
func TestEventsAreEmittedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []report.Event
	}{
		"when every replica runs": {
			job:  job(role("worker", 1)).Saw(time.Minute),
			pods: []*corev1.Pod{pod("job-worker-0", running)},
			want: []report.Event{{Type: "Normal", Reason: "Running", Action: "Observe", Message: "all 1 replicas run or have ended"}},
		},
		"when the job restarts": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "Restarting", Action: "Restart",
				Message: "restarting all 2 replicas: replica job-worker-1 failed with exit code 1 (Error)",
			}},
		},
		"when one replica restarts": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "Restarting", Action: "Restart",
				Message: "restarting replica job-worker-1 failed with exit code 1 (Error)",
			}},
		},
		"when a replica stays failed": {
			job: job(role("worker", 2)).Scope(scopeReplica).BackoffLimit(0).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "ReplicaFailed", Action: "Observe",
				Message: "replica job-worker-1 failed with exit code 1 (Error) and is not restarted",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "events", tc.want, d.Events, withoutFacts)
			tc.job.Status = d.Status
			diff(t, "events of a second look", []report.Event(nil), tc.job.Sees(tc.pods...).Events)
		})
	}
}

func TestContainerStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state corev1.ContainerState
		want  batchv1beta1.ContainerStatus
	}{
		"waiting says for what": {
			state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting, Reason: "ContainerCreating"},
		},
		"running": {
			state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			want:  batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerRunning},
		},
		"terminated says how": {
			state: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			want: batchv1beta1.ContainerStatus{
				Name: "c", State: batchv1beta1.ContainerTerminated, ExitCode: ptr.To[int32](137), Reason: "OOMKilled",
			},
		},
		"no state is waiting": {want: batchv1beta1.ContainerStatus{Name: "c", State: batchv1beta1.ContainerWaiting}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "status", tc.want, plan.ContainerStatus(corev1.ContainerStatus{Name: "c", State: tc.state}))
		})
	}
}

// withoutAttempt takes the label off a pod that has its attempt.
func withoutAttempt(p *corev1.Pod) { delete(p.Labels, batchv1beta1.LabelAttempt) }

func TestIsCreateFailure(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		batchv1beta1.ReasonNameConflict: true, batchv1beta1.ReasonCreateFailed: true, batchv1beta1.ReasonUpdateFailed: true,
		batchv1beta1.ReasonAdmissionChangedPod: true, batchv1beta1.ReasonNotInstalled: true, batchv1beta1.ReasonInvalidTemplate: false, batchv1beta1.ReasonAccepted: false,
	} {
		diff(t, "answer for "+reason, want, plan.IsCreateFailure(reason))
	}
}
