package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
)

// TestRequeueDelay checks when a job is requeued although nothing happens. The requeue is urgent if nodes can be idle
// until then.
func TestRequeueDelay(t *testing.T) {
	t.Parallel()
	ran := func(j *jobBuilder, pods ...*corev1.Pod) *jobBuilder { return j.Saw(time.Hour, pods...) }
	for name, tc := range map[string]struct {
		decision  plan.Decision
		requeueIn time.Duration
		want      bool
	}{
		"a job is requeued at its deadline": {
			decision: ran(job(role("worker", 1)).Deadline(4000), pod("job-worker-0", running)).
				Sees(pod("job-worker-0", running)),
			requeueIn: 400 * time.Second,
			want:      false,
		},
		"a finished job is requeued when it expires": {
			decision:  ran(job(role("worker", 1)).TTL(60), pod("job-worker-0", running)).Sees(pod("job-worker-0", exited(0))),
			requeueIn: time.Minute,
			want:      false,
		},
		"a job that awaits reports is requeued urgently when they are due": {
			decision: ran(job(role("worker", 2)).Window(2*time.Second), pod("job-worker-0", running),
				pod("job-worker-1", running)).
				Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1))),
			requeueIn: 2 * time.Second,
			want:      true,
		},
		"a job that awaits reports is requeued urgently if its deadline is earlier": {
			decision: ran(job(role("worker", 2)).Deadline(3610).Window(time.Minute), pod("job-worker-0", running),
				pod("job-worker-1", running)).Sees(pod("job-worker-0", running), pod("job-worker-1", exited(1))),
			requeueIn: 10 * time.Second,
			want:      true,
		},
		"a job is requeued urgently for its second restart": {
			decision: ran(job(role("worker", 1)), pod("job-worker-0", running)).
				Saw(time.Minute, pod("job-worker-0", exitedAgo(1, time.Minute))).
				Saw(0, pod("job-worker-0", exited(1), again(1))).Sees(),
			requeueIn: 10 * time.Second,
			want:      true,
		},
		"a job whose leader succeeded is requeued urgently to delete the peers": {
			decision: ran(job(role("worker", 2)).GivePeers(30*time.Second), pod("job-worker-0", running),
				pod("job-worker-1", running)).
				Sees(pod("job-worker-0", exited(0)), pod("job-worker-1", running)),
			requeueIn: 30 * time.Second,
			want:      true,
		},
		"a job is requeued urgently to delete the pod of a lost node by force": {
			decision: ran(job(role("worker", 1)).LoseNodesAfter(time.Minute), pod("job-worker-0", running)).
				Sees(pod("job-worker-0", running, onLostNode, deleting)),
			requeueIn: 90 * time.Second,
			want:      true,
		},
		"a job without a deadline is requeued urgently for a pod of a lost node before the pod is overdue": {
			decision: ran(job(role("worker", 1)).LoseNodesAfter(40*time.Second), pod("job-worker-0", running)).
				Sees(pod("job-worker-0", running, onLostNode, deleting)),
			requeueIn: 70 * time.Second,
			want:      true,
		},
		"a job is requeued urgently to read the node of an evicted pod again": {
			decision: ran(job(role("worker", 1)).LoseNodesAfter(time.Minute), pod("job-worker-0", running)).
				Sees(policy.OnRespondingNode(pod("job-worker-0", running, onLostNode, deleting))),
			requeueIn: 90 * time.Second,
			want:      true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "requeue delay", tc.requeueIn, summarize(tc.decision).RequeueIn)
			diff(t, "urgency", tc.want, tc.decision.Urgent)
		})
	}
}

// A job is requeued at the earliest time that it waits for.
func TestRequeueAtIsTheEarliestTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline int64
		want     time.Duration
	}{
		"a restart before the deadline is the earliest time": {deadline: 4000, want: 10 * time.Second},
		"a deadline before the restart is the earliest time": {deadline: 3605, want: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Deadline(tc.deadline).
				Saw(time.Hour, pod("job-worker-0", running)).
				Saw(time.Minute, pod("job-worker-0", exitedAgo(1, time.Minute))).
				Saw(0, pod("job-worker-0", exited(1), again(1)))
			diff(t, "requeue delay", tc.want, summarize(j.Sees()).RequeueIn)
		})
	}
}

// If the node of a pod does not report, it is unknown whether the volumes of the pod are ready.
func TestAnUnreachablePodIsNotAwaited(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Sees(pod("job-worker-0", unprepared(0), unreachable))
	diff(t, "phase", batchv1beta1.JobPhaseUnknown, d.Status.Phase)
	diff(t, "requeue delay", time.Duration(0), summarize(d).RequeueIn)
}

// The kubelet can take a minute to prepare a pod. The job is requeued for the end of this minute.
func TestAnUnpreparedPodIsAwaited(t *testing.T) {
	t.Parallel()
	having := func(c corev1.PodConditionType, status corev1.ConditionStatus) podOption {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: c, Status: status, LastTransitionTime: ago(0),
			})
		}
	}
	for name, tc := range map[string]struct {
		pod           *corev1.Pod
		wantReason    string
		wantRequeueIn time.Duration
	}{
		"a job is requeued a minute after the kubelet began to prepare its pod": {
			pod: pod("job-worker-0", unprepared(0)), wantReason: batchv1beta1.ReasonPending, wantRequeueIn: time.Minute,
		},
		"a job is not requeued after the minute": {
			pod: pod("job-worker-0", unprepared(2*time.Minute)), wantReason: batchv1beta1.ReasonPending,
		},
		"a job is not requeued for a pod that waits for something else": {
			pod: pod("job-worker-0", unprepared(0), imagePull), wantReason: batchv1beta1.ReasonImagePull,
		},
		"a job is not requeued for a pod that the kubelet has prepared": {
			pod:        pod("job-worker-0", having(corev1.PodReadyToStartContainers, corev1.ConditionTrue)),
			wantReason: batchv1beta1.ReasonPending,
		},
		"a job is not requeued for a pod that is only not ready": {
			pod: pod("job-worker-0", having(corev1.PodReady, corev1.ConditionFalse)), wantReason: batchv1beta1.ReasonPending,
		},
		"a job is requeued only for the end of a pod that is deleted": {
			pod: pod("job-worker-0", unprepared(0), deleting), wantReason: batchv1beta1.ReasonRestarting,
			wantRequeueIn: untilOverdue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(role("worker", 1)).Sees(tc.pod)
			diff(t, "reason", tc.wantReason, d.Status.Reason)
			diff(t, "requeue at", tc.wantRequeueIn, summarize(d).RequeueIn)
		})
	}
}

func TestAPodThatWaitsForSomethingElseIsNotReportedAsUnprepared(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 1)).Sees(pod("job-worker-0", unprepared(2*time.Minute), imagePull))
	diff(t, "Running", condition{
		"False", batchv1beta1.ReasonImagePull, "the replica is not running yet: container main of job-worker-0 cannot " +
			"start: ImagePullBackOff: no such image",
	}, conditionOf(d, batchv1beta1.ConditionRunning))
}

// Somebody other than the controller can set the condition FailureTarget.
func TestAJobThatEndsDoesNotWaitForProgress(t *testing.T) {
	t.Parallel()
	j := ran().Reporting(60, 0, notify)
	j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{
		Type: batchv1beta1.ConditionFailureTarget, Status: metav1.ConditionTrue, Reason: "Failed",
	})
	diff(t, "requeue delay", time.Duration(0), summarize(j.Sees()).RequeueIn)
}
