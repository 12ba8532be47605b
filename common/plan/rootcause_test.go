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
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/trainlog"
)

// captured returns the end of the output of a real launcher, as the kubelet kept it. The output comes from the test
// data of package trainlog.
func captured(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "trainlog", "testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The exit code of a launcher is usually 1, so the exit codes of the replicas do not show which rank failed first.
// The output of the launchers shows it.
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
		ranks bool // whether each replica is one rank
		// want is the newest failure in status.failures. The field wantMessage is the beginning of the message of
		// FailureTarget.
		want, wantMessage string
	}{
		"torchrun: a killed rank is named if both launchers end in the same second": {
			pods:        []*corev1.Pod{peer, pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0")))},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was terminated by SIGKILL",
		},
		"torchrun: a killed rank is named although the launcher of its peer ended first": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, 2*time.Second), printed(captured(t, "torch1-signal-1"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was terminated by SIGKILL",
		},
		"torchrun: a rank that ended with an exit code is named": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(1), printed(captured(t, "torch1-3-1"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-3-0"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: exit code 3",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 ended with exit code 3",
		},
		"torchrun: a rank that raised an exception is named": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(1), printed(captured(t, "torch1-recorded-0"))),
				pod("job-worker-1", exited(1), printed(captured(t, "torch1-recorded-1"))),
			},
			want:        "job-worker-1 on node-1: exit code 1, rank 3: exit code 1",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 ended with exit code 1",
		},
		"one rank per replica: a rank that lost its peer is not named although it ended first": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, time.Second), printed(captured(t, "plain1-exception-0"))),
				pod("job-worker-1", exited(1), printed(captured(t, "plain1-exception-1"))),
			},
			ranks:       true,
			want:        "job-worker-1 on node-1: exit code 1, rank 1",
			wantMessage: "replica job-worker-1 (rank 1) failed with exit code 1 (Error)",
		},
		"DeepSpeed: another replica is named by the launcher of the leader": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(137), printed(
					trainlog.AgentReport(second, 137, 1, trainlog.RankReport(3, -9)))),
				pod("job-worker-1", running),
			},
			want: "job-worker-1 on node-1: exit code 137, rank 3: SIGKILL",
			wantMessage: "replica job-worker-0 failed with exit code 137 (Error): " +
				"rank 3 on job-worker-1 was terminated by SIGKILL",
		},
		"one rank per replica: the rank in the output takes precedence": {
			pods:  []*corev1.Pod{peer, pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0")))},
			ranks: true, want: "job-worker-1 on node-1: exit code 1, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 1 (Error): rank 3 was terminated by SIGKILL",
		},
		"one rank per replica: a failed init container has no rank": {
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{endsAs("fetch", 6)}
			})},
			ranks: true, want: "job-worker-1 on node-1: exit code 6",
			wantMessage: "replica job-worker-1 failed with exit code 6 (Error)",
		},
		"DeepSpeed: the leader is named by the launcher of another replica": {
			pods: []*corev1.Pod{
				pod("job-worker-0", running),
				pod("job-worker-1", exited(137), printed(trainlog.AgentReport(first, 137, 1, trainlog.RankReport(3, -9)))),
			},
			want: "job-worker-0 on node-0: exit code 137, rank 3: SIGKILL",
			wantMessage: "replica job-worker-1 failed with exit code 137 (Error): " +
				"rank 3 on job-worker-0 was terminated by SIGKILL",
		},
		"DeepSpeed: a replica is named without a rank if the launcher reports none": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(3), printed(trainlog.AgentReport(second, 3, 1, "no labels"))),
				pod("job-worker-1", running),
			},
			want: "job-worker-1 on node-1: exit code 3",
			wantMessage: "replica job-worker-0 failed with exit code 3 (Error): " +
				"a process on job-worker-1 ended with exit code 3",
		},
		"a host that does not belong to the job is not named": {
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(3), printed(trainlog.AgentReport(other, 3, 1, "no labels"))),
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
				t.Errorf("the message is %q, want it to begin with %q", message, tc.wantMessage)
			}
			if strings.Contains(f.Message+message, "by peer") {
				t.Errorf("the messages quote peers that only lost the rank:\n%s\n%s", f.Message, message)
			}
		})
	}
}

// If all failed replicas only lost their peers, the root cause is not reported yet. The kubelet of the peer that
// failed first can take a while to report that failure.
func TestLostPeerIsNotTheRootCauseBeforeFiveWindows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		output        string
		seen          time.Duration
		wantRequeueIn time.Duration
	}{
		"lost peers are not judged within one window":   {"plain1-exception-0", time.Second, 9 * time.Second},
		"lost peers are not judged within five windows": {"plain1-exception-0", 9 * time.Second, time.Second},
		"lost peers are judged after five windows":      {"plain1-exception-0", 10 * time.Second, 0},
		"an exception is not judged within one window":  {"plain1-exception-1", time.Second, time.Second},
		"an exception is judged after one window":       {"plain1-exception-1", 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := pod("job-worker-0", exitedAgo(1, tc.seen), printed(captured(t, tc.output)))
			j := job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
			j.Window(2*time.Second).Saw(tc.seen, failed, pod("job-worker-1", running))
			got := summarize(j.Sees(failed, pod("job-worker-1", running)))
			diff(t, "requeue delay", tc.wantRequeueIn, got.RequeueIn)
			diff(t, "whether it was judged", tc.wantRequeueIn == 0, len(got.Failures) > 0)
		})
	}
}

// The log has the facts of a failure as keys and values. It never has the output of a program.
func TestFactsOfAFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []any
	}{
		"the facts of a failed rank have its exit code and number": {
			pod: pod("job-worker-1", exited(1), printed(captured(t, "torch1-signal-0"))),
			want: []any{
				"replica", "job-worker-1", "cause", "Error", "counted", true,
				"exitCode", int32(1), "rank", int32(3), "restarted", 2,
			},
		},
		"the facts of a preemption have no exit code": {
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

func TestReplicaFailureHasTheReasonIfThereIsNoExitCode(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Sees(pod("job-worker-0", rejected))
	diff(t, "ReplicaFailure", condition{
		metav1.ConditionTrue, "OutOfcpu", "replica job-worker-0 failed (OutOfcpu) and is being replaced",
	}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
}

func TestTimeOfAFailureIsTheEndOfItsProgram(t *testing.T) {
	t.Parallel()
	d := ran().Sees(pod("job-worker-0", running), pod("job-worker-1", exitedAgo(1, 3*time.Second)))
	diff(t, "time", ago(3*time.Second), d.Status.Failures[0].Time)
}

// To read the whole output of a container is expensive, so only outputs that might show the root cause are read.
func TestOutputsThatMightShowTheRootCause(t *testing.T) {
	t.Parallel()
	unclear, code3 := captured(t, "torch1-exception-0"), captured(t, "torch1-3-0")
	printing := func(name, output string) *corev1.Pod { return pod(name, exited(1), printed(output)) }
	worker0 := view.Container{Pod: "job-worker-0", Name: mainContainer}
	worker1 := view.Container{Pod: "job-worker-1", Name: mainContainer}
	recorded := []*corev1.Pod{printing("job-worker-0", unclear), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []view.Container
	}{
		"both outputs are read if neither shows the root cause": {
			job: ran(), pods: []*corev1.Pod{printing("job-worker-0", unclear), printing("job-worker-1", unclear)},
			want: []view.Container{worker0, worker1},
		},
		"an output is not read if the failure of its replica is clear": {
			job: ran(), pods: []*corev1.Pod{
				pod("job-worker-0", exitedAgo(1, time.Hour), printed(unclear)), pod("job-worker-1", exited(3)),
			},
			want: []view.Container{worker0},
		},
		"the output of a running replica is not read": {job: ran(), pods: recorded, want: []view.Container{worker0}},
		"no output is read if the root cause is clear": {
			job: ran(), pods: []*corev1.Pod{printing("job-worker-0", unclear), pod("job-worker-1", exitedAgo(3, time.Hour))},
		},
		"an output is read if the clear root cause has only the list of torchrun": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1), printed(code3))},
			want: []view.Container{worker1},
		},
		"the output of a replica that stays failed is read": {
			job: ran().Scope(scopeReplica).BackoffLimit(0), pods: []*corev1.Pod{
				pod("job-worker-0", running), pod("job-worker-1", exited(1), printed(code3)),
			},
			want: []view.Container{worker1},
		},
		"no output is read before a recorded failure is judged": {
			job: ran().Window(time.Minute).Saw(0, recorded...), pods: recorded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "containers whose output is read", tc.want, tc.job.Sees(tc.pods...).Unclear)
		})
	}
}

// Failures that followed from the root cause do not end the job, even if they look permanent.
func TestFollowingFailuresDoNotDecide(t *testing.T) {
	t.Parallel()
	for name, root := range map[string]*corev1.Pod{
		"a failure that followed a SIGKILL does not end the job":    pod("job-worker-0", exitedAgo(137, time.Minute)),
		"a failure that followed a preemption does not end the job": pod("job-worker-0", running, disrupted, deleting),
		"a failure that followed a deletion does not end the job":   pod("job-worker-0", running, deleting),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyExitCode)).
				Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running))
			d := j.Sees(root, pod("job-worker-1", exited(1)))
			diff(t, "phase", batchv1beta1.JobPhasePending, d.Status.Phase)
			diff(t, "attempt", int32(1), d.Status.Attempt)
			diff(t, "replica of the root cause", "job-worker-0", d.Status.Failures[0].Replica)
		})
	}
}
