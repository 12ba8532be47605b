package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/launcher"
	"tensorstack.dev/jobs/common/plan"
)

// captured returns what the kubelet kept of a real output; see package launcher.
func captured(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "launcher", "testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The launchers of both replicas end with exit code 1, or nearly so: what they print tells which rank failed first.
func TestTheRankThatFailedFirstIsNamed(t *testing.T) {
	t.Parallel()
	const (
		first  = "job-worker-0.job.ns.svc.cluster.local"
		second = "job-worker-1.job.ns.svc.cluster.local"
		other  = "other-worker-1.other.ns.svc.cluster.local"
	)
	peer := pod("job-worker-0", exited(1), printed(captured(t, "torch1-signal-1")))
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		ranks bool // replicas are ranks
		// want is the newest of status.failures, and wantMessage how the condition Failed begins.
		want, wantMessage string
	}{
		"torchrun, in the same second: a rank was killed": {
			pods:        []*corev1.Pod{peer, pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0")))},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was ended by SIGKILL",
		},
		"torchrun, the peer's launcher ended before: a rank was killed": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, 2*time.Second), printed(captured(t, "torch1-signal-1"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was ended by SIGKILL",
		},
		"torchrun: a rank ended with an exit code": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(1), printed(captured(t, "torch1-3-1"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-3-0"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: exit code 3",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 ended with exit code 3",
		},
		"torchrun: a rank raised an exception": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(1), printed(captured(t, "torch1-recorded-0"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-recorded-1"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: exit code 1",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 ended with exit code 1",
		},
		"each replica is a rank: the other one only lost its peer, and reported before": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, time.Second), printed(captured(t, "plain1-exception-0"))),
				pod("job-worker-1", exited(1), printed(captured(t, "plain1-exception-1"))),
			},
			ranks:       true,
			want:        "job-worker-1 on node-1: exit code 1, rank 1",
			wantMessage: "replica job-worker-1 (rank 1) failed with exit code 1 (Error)",
		},
		"DeepSpeed: the launcher names another replica": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(137), printed(
					launcher.AgentReport(second, 137, 1, launcher.RankReport(3, -9)))),
				pod("job-worker-1", running),
			},
			want: "job-worker-1 on node-1: exit code 137, rank 3: SIGKILL",
			wantMessage: "replica job-worker-0 failed with exit code 137 (Error): " +
				"rank 3 on job-worker-1 was ended by SIGKILL",
		},
		"each replica is a rank: the output names the rank": {
			pods:  []*corev1.Pod{peer, pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0")))},
			ranks: true, want: "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was ended by SIGKILL",
		},
		"each replica is a rank: an init container failed, before there was a rank": {
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{endsAs("fetch", 6)}
			})},
			ranks: true, want: "job-worker-1 on node-1: exit code 6",
			wantMessage: "replica job-worker-1 failed with exit code 6 (Error)",
		},
		"DeepSpeed: the launcher names the leader": {
			pods: []*corev1.Pod{
				pod("job-worker-0", running),
				pod("job-worker-1", exited(137), printed(launcher.AgentReport(first, 137, 1, launcher.RankReport(3, -9)))),
			},
			want: "job-worker-0 on node-0: exit code 137, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 137 (Error): " +
				"rank 3 on job-worker-0 was ended by SIGKILL",
		},
		"DeepSpeed: the launcher names a replica, and no rank": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(3), printed(launcher.AgentReport(second, 3, 1, "no labels"))),
				pod("job-worker-1", running),
			},
			want: "job-worker-1 on node-1: exit code 3",
			wantMessage: "replica job-worker-0 failed with exit code 3 (Error): " +
				"a process on job-worker-1 ended with exit code 3",
		},
		"a program names a host that is none of the job": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(3), printed(launcher.AgentReport(other, 3, 1, "no labels"))),
				pod("job-worker-1", running),
			},
			want:        "job-worker-0 on node-0: exit code 3",
			wantMessage: "replica job-worker-0 failed with exit code 3 (Error): a process ended with exit code 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, p := range tc.pods {
				onNode(fmt.Sprintf("node-%d", i))(p)
			}
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).
				Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
			j.Spec.RanksAreReplicas = tc.ranks
			d := j.Sees(tc.pods...)
			diff(t, "number of failures", 1, len(d.Status.Failures))
			f := d.Status.Failures[0]
			got := fmt.Sprintf("%s on %s: exit code %d", f.Replica, f.Node, *f.ExitCode)
			if f.Rank != nil {
				got += fmt.Sprintf(", rank %d", *f.Rank)
			}
			if f.RankSignal != "" {
				got += ": " + f.RankSignal
			}
			if f.RankExitCode != nil {
				got += fmt.Sprintf(": exit code %d", *f.RankExitCode)
			}
			diff(t, "failure", tc.want, got)
			message := conditionOf(d, batchv1beta1.ConditionFailureTarget).Message
			if !strings.HasPrefix(message, tc.wantMessage+", which restart policy") {
				t.Errorf("the condition says %q, want %q", message, tc.wantMessage)
			}
			if strings.Contains(f.Message+message, "by peer") {
				t.Errorf("the peers of the rank are quoted:\n%s\n%s", f.Message, message)
			}
		})
	}
}

// A replica that only lost its peers followed from a failure that is yet to be reported. That may take a node a while.
func TestALostPeerIsNotTheCauseBeforeLong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		output     string
		seen       time.Duration
		wantWakeIn time.Duration
	}{
		"lost peers, within the window":          {"plain1-exception-0", time.Second, 9 * time.Second},
		"lost peers, within five windows":        {"plain1-exception-0", 9 * time.Second, time.Second},
		"lost peers, and nothing else came":      {"plain1-exception-0", 10 * time.Second, 0},
		"an exception of its own, in the window": {"plain1-exception-1", time.Second, time.Second},
		"an exception of its own, after it":      {"plain1-exception-1", 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := pod("job-worker-0", exitedAgo(1, tc.seen), printed(captured(t, tc.output)))
			j := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
			j.Window(2*time.Second).Saw(tc.seen, failed, pod("job-worker-1", running))
			got := summarize(j.Sees(failed, pod("job-worker-1", running)))
			diff(t, "wake-up", tc.wantWakeIn, got.WakeIn)
			diff(t, "whether it was judged", tc.wantWakeIn == 0, len(got.Failures) > 0)
		})
	}
}

// The log has the facts of a failure as keys, and never what a program printed.
func TestFactsOfAFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []any
	}{
		"a rank that failed": {
			pod: pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0"))),
			want: []any{
				"replica", "job-worker-1", "cause", "Error", "counted", true,
				"exitCode", int32(1), "rank", int32(3), "restarted", 2,
			},
		},
		"a replica that was preempted": {
			pod:  pod("job-worker-1", running, disrupted, deleting),
			want: []any{"replica", "job-worker-1", "cause", "Preempted", "counted", false, "restarted", 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []any
			for _, e := range ran().Sees(pod("job-worker-0", running), tc.pod).Events {
				if e.Reason == batchv1beta1.EventRestarting {
					got = e.Facts
				}
			}
			diff(t, "facts", tc.want, got)
		})
	}
}

func TestFailureWithoutAnExitCodeIsToldByItsReason(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Sees(pod("job-worker-0", rejected))
	diff(t, "ReplicaFailure", condition{
		metav1.ConditionTrue, "OutOfcpu", "replica job-worker-0 failed (OutOfcpu) and is being replaced",
	}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
}

func TestFailureIsDatedByTheEndOfItsProgram(t *testing.T) {
	t.Parallel()
	d := ran().Sees(pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, 3*time.Second)))
	diff(t, "time", ago(3*time.Second), d.Status.Failures[0].Time)
}

// To read the whole output of a container is expensive, and not every output may tell more.
func TestOutputsThatMayTellTheRootCause(t *testing.T) {
	t.Parallel()
	unclear := captured(t, "torch1-exception-0")
	printing := func(name, output string) *corev1.Pod { return pod(name, exited(1), printed(output)) }
	worker0 := plan.Container{Pod: "job-worker-0", Name: mainContainer}
	worker1 := plan.Container{Pod: "job-worker-1", Name: mainContainer}
	recorded := []*corev1.Pod{printing("job-worker-0", unclear), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []plan.Container
	}{
		"neither output tells the root cause": {
			job: ran(), pods: []*corev1.Pod{printing("job-worker-0", unclear), printing("job-worker-1", unclear)},
			want: []plan.Container{worker0, worker1},
		},
		"the output of the other replica tells how it failed": {
			job: ran(), pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, time.Hour), printed(unclear)), pod("job-worker-1", exited(3)),
			},
			want: []plan.Container{worker0},
		},
		"the other replica runs": {job: ran(), pods: recorded, want: []plan.Container{worker0}},
		"the root cause is clear": {
			job: ran(), pods: []*corev1.Pod{printing("job-worker-0", unclear), pod("job-worker-1", exitedAgo(3, time.Hour))},
		},
		"the failure is recorded, and nothing is judged yet": {
			job: ran().Window(time.Minute).Saw(0, recorded...), pods: recorded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "containers whose output may tell", tc.want, tc.job.Sees(tc.pods...).Unclear)
		})
	}
}
