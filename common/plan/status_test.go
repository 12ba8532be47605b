package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/report"
)

func imagePull(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}}
}

// unprepared returns an option for a pod that has a node, but whose volumes or network have not been ready for the
// given time.
func unprepared(since time.Duration) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: ago(since),
		})
	}
}

func TestRunningReportsWhyTheJobWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job       *jobBuilder
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		want      condition
		wantReady string
		// wantRequeueIn is the time from now until the job is requeued. 0 means that the test does not compare this time.
		wantRequeueIn time.Duration
	}{
		"the job runs if every replica runs": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "2/2",
		},
		"the job does not wait for a replica that has succeeded": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "2/2",
		},
		"the job does not wait for a running replica to be ready": {
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].Ready = false
			})},
			wantPhase: batchv1beta1.JobPhaseRunning,
			want:      condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
			wantReady: "1/2",
		},
		"the job waits for its pods to be created": {
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonCreating,
				"2 of 2 replicas are not running yet: job-worker-0 is being created",
			},
			wantReady: "0/2",
		},
		"the job waits for its only pod to be created": {
			job:       job(role("worker", 1)),
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonCreating,
				"the replica is not running yet: job-worker-0 is being created",
			},
			wantReady: "0/1",
		},
		"the job waits for containers to start": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1")},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending, "1 of 2 replicas is not running yet: job-worker-1 is starting",
			},
			wantReady: "1/2",
		},
		"a pod whose volumes are not ready for a minute is not merely starting": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unprepared(time.Minute))},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas is not running yet: job-worker-1 is starting, " +
					"but its volumes or its network have not been ready since 11:59:00 UTC: see the events of the pod",
			},
			wantReady: "1/2",
		},
		"a pod whose volumes are not ready yet is starting": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unprepared(59*time.Second))},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending, "1 of 2 replicas is not running yet: job-worker-1 is starting",
			},
			wantReady: "1/2", wantRequeueIn: time.Second,
		},
		"the job waits for a main container, although a sidecar runs": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", sidecarRunning)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending, "1 of 2 replicas is not running yet: job-worker-1 is starting",
			},
			wantReady: "1/2",
		},
		"a replica that cannot be scheduled is named before one that is starting": {
			pods:      []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", unschedulable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonUnschedulable,
				"2 of 2 replicas are not running yet: job-worker-1 cannot be scheduled: 0/3 nodes are available",
			},
			wantReady: "0/2",
		},
		"the first of several replicas that cannot start is named": {
			pods:      []*corev1.Pod{pod("job-worker-0", imagePull), pod("job-worker-1", unschedulable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonImagePull,
				"2 of 2 replicas are not running yet: container main of job-worker-0 cannot start: ImagePullBackOff: no such image",
			},
			wantReady: "0/2",
		},
		"the job waits for the replacement of a deleted replica": {
			job:       job(role("worker", 2)).Scope(scopeReplica),
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, deleting)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas is not running yet: job-worker-1 is being replaced",
			},
			wantReady: "1/2",
		},
		"the job waits for a restart that is not due yet": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))).
				Saw(0, pod("job-worker-0", running), pod("job-worker-1", exited(1), againAlone(1))),
			pods:      []*corev1.Pod{pod("job-worker-0", running)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas is not running yet: job-worker-1 restarts at 12:00:10 UTC",
			},
			wantReady: "1/2",
		},
		"the job waits for a new pod after its restart was due": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Minute), againAlone(1))),
			pods:      []*corev1.Pod{pod("job-worker-0", running)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas is not running yet: job-worker-1 is being recreated",
			},
			wantReady: "1/2",
		},
		"the job waits for a new pod that was created before its restart was due": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))).
				Saw(0, pod("job-worker-0", running), pod("job-worker-1", exited(1), againAlone(1))),
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", againAlone(2))},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas is not running yet: job-worker-1 is starting",
			},
			wantReady: "1/2",
		},
		"the job waits for a new pod when its restart is due": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, time.Hour))),
			pods:      []*corev1.Pod{pod("job-worker-0", running)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
				"1 of 2 replicas is not running yet: job-worker-1 is being recreated",
			},
			wantReady: "1/2",
		},
		"the job waits for a peer whose state is unknown": {
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unreachable)},
			wantPhase: batchv1beta1.JobPhasePending,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas is not running yet: the state of job-worker-1 cannot be obtained",
			},
			wantReady: "1/2",
		},
		"the phase is Unknown if the state of the leader is unknown": {
			pods:      []*corev1.Pod{pod("job-worker-0", unreachable), pod("job-worker-1", running)},
			wantPhase: batchv1beta1.JobPhaseUnknown,
			want: condition{
				metav1.ConditionFalse, batchv1beta1.ReasonPending,
				"1 of 2 replicas is not running yet: the state of job-worker-0 cannot be obtained",
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
			if tc.wantRequeueIn > 0 {
				diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
			}
			diff(t, "Initialized", metav1.ConditionTrue, conditionOf(d, batchv1beta1.ConditionInitialized).Status)
		})
	}
}

// ReplicaFailure is True from a failure until every replica runs again.
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
		got = append(got, conditionOf(decided(j.Status), batchv1beta1.ConditionReplicaFailure))
	}
	failed := condition{
		metav1.ConditionTrue, batchv1beta1.ReasonError,
		"replica job-worker-0 failed with exit code 1 (Error) and is being replaced",
	}
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

// A condition has the time of its last transition and the generation of the spec that it is about.
func TestConditionsKeepTheirTransitionTime(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running)}
	j := job(role("worker", 1)).Saw(time.Hour, pods...)
	j.Generation = 2
	diff(t, "Running", &metav1.Condition{
		Type: batchv1beta1.ConditionRunning, Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonReplicasRunning,
		Message: "the replica runs or has ended", ObservedGeneration: 2, LastTransitionTime: ago(time.Hour),
	}, meta.FindStatusCondition(j.Sees(pods...).Status.Conditions, batchv1beta1.ConditionRunning))
}

// An event reports a change, and not a state.
func TestEventsAreEmittedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []report.Event
	}{
		"an event is emitted when every replica runs": {
			job:  job(role("worker", 1)).Saw(time.Minute),
			pods: []*corev1.Pod{pod("job-worker-0", running)},
			want: []report.Event{
				{Type: "Normal", Reason: "Running", Action: "Observe", Message: "the replica runs or has ended"},
			},
		},
		"an event is emitted when the job restarts": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "Restarting", Action: "Restart",
				Message: "restarting all 2 replicas: replica job-worker-1 failed with exit code 1 (Error)",
			}},
		},
		"an event is emitted when a job of one replica restarts": {
			job:  job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running)),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "Restarting", Action: "Restart",
				Message: "restarting the replica: replica job-worker-0 failed with exit code 1 (Error)",
			}},
		},
		"an event is emitted when one replica restarts": {
			job: job(role("worker", 2)).Scope(scopeReplica).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running)),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
			want: []report.Event{{
				Type: "Warning", Reason: "Restarting", Action: "Restart",
				Message: "restarting job-worker-1: replica job-worker-1 failed with exit code 1 (Error)",
			}},
		},
		"an event is emitted when a replica stays failed": {
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
			diff(t, "events of a second reconcile", []report.Event(nil), tc.job.Sees(tc.pods...).Events)
		})
	}
}

func TestAnUnknownLeaderDoesNotChangeThePhaseWhileTheRootCauseIsAwaited(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 3)).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)).
		Window(2 * time.Second)
	d := j.Sees(pod("job-worker-0", unreachable), pod("job-worker-1", running), pod("job-worker-2", exited(1)))
	diff(t, "action", decide.AwaitRootCause, d.Action)
	diff(t, "phase", batchv1beta1.JobPhaseRunning, d.Status.Phase)
}
