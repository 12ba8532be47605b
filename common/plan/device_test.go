package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/common/trainlog"
)

// An unhealthy device restarts a replica even if it still runs, because a program whose GPU is gone can hang forever.
// As long as the program hangs, no launcher reports a failure.
func TestUnhealthyDevice(t *testing.T) {
	t.Parallel()
	debugging := func(j *jobBuilder) *jobBuilder {
		j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
		return j
	}
	runs2 := func(j *jobBuilder) *jobBuilder {
		return j.Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	}
	collective := func() *jobBuilder { return runs2(job(role("worker", 2))) }
	never := restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)
	exitCode := restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)
	bad := func(options ...podOption) *corev1.Pod {
		return pod("job-worker-1", append(options, withBadDevice("gpu-1"))...)
	}
	waiting := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer}} }
	goesOn := summary{Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonReplicasRunning}
	restarts := summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Attempt: 1,
		Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-0", "job-worker-1"},
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want summary
	}{
		"all replicas of a collective are restarted, which does not count": {
			job: collective(), pods: []*corev1.Pod{pod("job-worker-0", running), bad(running)}, want: restarts,
		},
		"only the replica is restarted if the scope is Replica": {
			job:  runs2(job(role("worker", 2)).Scope(scopeReplica)),
			pods: []*corev1.Pod{pod("job-worker-0", running), bad(running)},
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-1"},
			},
		},
		"ExitCode restarts a replica with an unhealthy device": {
			job: runs2(job(exitCode)), pods: []*corev1.Pod{pod("job-worker-0", running), bad(running)}, want: restarts,
		},
		"a replica goes on that its restart policy never restarts": {
			job: runs2(job(never)), pods: []*corev1.Pod{pod("job-worker-0", running), bad(running)}, want: goesOn,
		},
		"a replica in debug mode goes on": {
			job: runs2(debugging(job(role("worker", 2)))), pods: []*corev1.Pod{pod("job-worker-0", running), bad(running)},
			want: goesOn,
		},
		"a peer that failed because of the device is not the root cause": {
			job: collective(), pods: []*corev1.Pod{pod("job-worker-0", exitedAgo(1, 5*time.Second)), bad(running)},
			want: restarts,
		},
		"a program that lost its device and exits is the root cause": {
			job: collective(), pods: []*corev1.Pod{pod("job-worker-0", running), bad(exited(1))},
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Attempt: 1,
				Failures: []string{"job-worker-1: exit code 1, ignored"}, Deletes: []string{"job-worker-0", "job-worker-1"},
			},
		},
		"a pod that somebody deletes has been deleted": {
			job: collective(), pods: []*corev1.Pod{pod("job-worker-0", running), bad(running, deleting)},
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting, Attempt: 1,
				Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-0"},
				RequeueIn: untilOverdue,
			},
		},
		"a replica that has not started is restarted": {
			job:  job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1")),
			pods: []*corev1.Pod{pod("job-worker-0", running), bad(waiting)},
			want: summary{
				Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonRestarting,
				Failures: []string{"job-worker-1: no exit code, ignored"}, Deletes: []string{"job-worker-1"},
			},
		},
		"a job whose leader succeeded does not restart": {
			job: collective(), pods: []*corev1.Pod{pod("job-worker-0", exited(0)), bad(running)},
			want: summary{
				Phase: batchv1beta1.JobPhaseRunning, Reason: batchv1beta1.ReasonLeaderSucceeded,
				Deletes: []string{"job-worker-1"}, RequeueIn: time.Minute,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "decision", tc.want, summarize(tc.job.Sees(tc.pods...)))
		})
	}
}

func TestUnhealthyDeviceIsReported(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		pod("job-worker-0", running), pod("job-worker-1", onNode("node-1"), running, withBadDevice("gpu-1")),
	}
	j := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	d := j.Sees(pods...)
	diff(t, "failures", []batchv1beta1.ReplicaFailure{{
		Replica: "job-worker-1", Node: "node-1", Reason: "DeviceUnhealthy", Time: ago(0),
		Devices: []batchv1beta1.UnhealthyDevice{{Resource: "test/device", ID: "gpu-1"}},
	}}, d.Status.Failures)
	diff(t, "restarts", []decide.Restart{{Cause: "DeviceUnhealthy", Node: "node-1"}}, d.Restarts)
	diff(t, "events", []report.Event{{
		Type: "Warning", Reason: "Restarting", Action: "Restart",
		Message: "restarting all 2 replicas: replica job-worker-1 failed (DeviceUnhealthy: gpu-1 (test/device))",
	}}, d.Events, withoutFacts)

	j.Status = d.Status
	diff(t, "restarts while the pods are being deleted", []decide.Restart(nil), j.Sees(pods...).Restarts)
	diff(t, "requeue delay when the pods are gone", 15*time.Second, summarize(j.Sees()).RequeueIn)
}

// A DeepSpeed launcher names the host of the process that it saw fail first. In this test, that host is a peer of the
// replica whose device is unhealthy.
func TestNodeThatCausedAFailureIsThatOfTheReplicaThatHasTheDevice(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	d := j.Sees(
		pod("job-worker-0", onNode("bad"), exited(1), withBadDevice("gpu-1"),
			printed(trainlog.AgentReport("job-worker-1", 1, 0, "lost"))),
		pod("job-worker-1", onNode("good"), running))
	diff(t, "restarts", []decide.Restart{{Cause: "DeviceUnhealthy", Node: "bad"}}, d.Restarts)
	got := d.Status.Failures[0]
	diff(t, "failure", []any{"job-worker-0", "bad", (*int32)(nil)}, []any{got.Replica, got.Node, got.Rank})
}

func TestRankOfAReplicaWithAnUnhealthyDevice(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{
		"the launcher names the replica": trainlog.AgentReport("job-worker-0", 1, 0, trainlog.RankReport(3, 1)),
		"the launcher names no replica":  trainlog.RankReport(3, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running))
			d := j.Sees(pod("job-worker-0", exited(1), withBadDevice("gpu-1"), printed(output)))
			diff(t, "rank", new(int32(3)), d.Status.Failures[0].Rank)
		})
	}
}

// The kubelet can report the unhealthy device a moment after the end of the program.
func TestDeviceIsTheCauseIfItIsReportedBeforeTheRootCauseIsDetermined(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Window(2*time.Second).Saw(time.Minute, pod("job-worker-0", running),
		pod("job-worker-1", running))
	failed := []podOption{exitedAgo(1, time.Second)}
	j.Saw(time.Second, pod("job-worker-0", running), pod("job-worker-1", failed...))
	d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", append(failed, withBadDevice("gpu-1"))...))
	diff(t, "restarts", []decide.Restart{{Cause: "DeviceUnhealthy"}}, d.Restarts)
	diff(t, "backoffCount", int32(0), d.Status.BackoffCount)
}

// The end of a replica is accounted for once, whatever its kubelet reports later.
func TestDeviceOfAReplicaThatHasEndedDoesNotMatter(t *testing.T) {
	t.Parallel()
	exitCode := restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)
	for name, ended := range map[string][]podOption{
		"a replica that stays failed while its sidecar runs": {exited(1), sidecarRunning},
		"a replica that succeeded while its sidecar runs":    {exited(0), sidecarRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(exitCode).Scope(scopeReplica).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", ended...))
			d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", append(ended, withBadDevice("gpu-1"))...))
			diff(t, "restarts", []decide.Restart(nil), d.Restarts)
			diff(t, "deletions", []string(nil), names(d.Deletes))
		})
	}
}

func TestLatePodOfAReplicaThatSucceededIsNotRestartedForItsDevice(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Scope(scopeReplica).
		Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(0)))
	d := j.Sees(pod("job-worker-0", running), pod("job-worker-1", running, withBadDevice("gpu-1")))
	diff(t, "restarts", []decide.Restart(nil), d.Restarts)
}

// The clock of a node can be ahead. If a failure were recorded in the future, the next pod on the node would seem
// older than the failure, and the failure of that pod would not count as a second one.
func TestFailureIsRecordedNoLaterThanNow(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Hour, pod("job-worker-0", running))
	d := j.Sees(pod("job-worker-0", exitedAgo(1, -10*time.Minute)))
	diff(t, "time", ago(0), d.Status.Failures[0].Time)
}

func TestDisruptionOfAReplicaWithAnUnhealthyDeviceHasItsReason(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", running))
	d := j.Sees(pod("job-worker-0", running, withBadDevice("gpu-1"), disrupted, deleting))
	diff(t, "restarts", []decide.Restart{{Cause: "Preempted"}}, d.Restarts)
}

func TestRestartAfterAnErrorOfTheProgramHasNoNode(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", onNode("node-1"), running))
	diff(t, "restarts", []decide.Restart{{Cause: "Error", Counted: true}},
		j.Sees(pod("job-worker-0", onNode("node-1"), exited(1))).Restarts)
}

// The template of a job can name a node that does not exist, so the node of a restart is only set if a container
// started.
func TestRestartOfAPodThatNeverStartedHasNoNode(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1)).Saw(time.Minute, pod("job-worker-0", onNode("invented")))
	d := j.Sees(pod("job-worker-0", onNode("invented"), onLostNode, deleting))
	diff(t, "restarts", []decide.Restart{{Cause: "NodeLost"}}, d.Restarts)
}
