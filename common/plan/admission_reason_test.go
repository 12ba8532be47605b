package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// If one pod needs intervention and another pod waits in a queue, the job has the reason of the pod that needs
// intervention.
func TestReasonOfAJobThatWaitsForItsAdmission(t *testing.T) {
	t.Parallel()
	closed := &view.Wait{Reason: "QueueClosed", Message: "the queue is closed", NeedsHelp: true}
	for name, tc := range map[string]struct {
		wait *view.Wait
		pod  *corev1.Pod
		// want is the reason of the job. The field wantEvents has the reasons of its events.
		want       string
		wantEvents []string
	}{
		"an unschedulable pod takes precedence over a queued pod": {
			wait: &view.Wait{Reason: "Queued", Message: "it waits"}, pod: pod("job-worker-1", unschedulable),
			want: "Unschedulable",
		},
		"an unschedulable pod takes precedence over a pod that waits for an earlier group to end": {
			wait: &view.Wait{Reason: "EarlierGroup", Message: "it waits"}, pod: pod("job-worker-1", unschedulable),
			want: "Unschedulable",
		},
		"a first pod with a closed queue takes precedence over an unschedulable pod": {
			wait: closed, pod: pod("job-worker-1", unschedulable), want: "QueueClosed", wantEvents: []string{"QueueClosed"},
		},
		"an unschedulable first pod takes precedence over a pod with a closed queue": {
			wait: closed, pod: pod("job-worker-0", unschedulable), want: "Unschedulable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seeing(tc.pod)
			seen.Admission = &admitting{answer: view.Answer{Wait: tc.wait}}
			d := plan.Decide(job(role("worker", 2)).Job, seen, now)
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason)
			}
			diff(t, "reason", tc.want, d.Status.Reason)
			diff(t, "events", tc.wantEvents, events)
		})
	}
}

// After a restart of the controller, the admission is unknown for a short time. The status then keeps its reason.
func TestReasonStaysWhileTheAdmissionIsUnknown(t *testing.T) {
	t.Parallel()
	worker0, waiting := pod("job-worker-0", running), pod("job-worker-1")
	queued := func() *jobBuilder {
		j := job(role("worker", 2)).Saw(time.Minute, worker0)
		meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionRunning).Reason = "Queued"
		return j
	}
	ofOldSpec := queued()
	ofOldSpec.Generation++
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want string
	}{
		"the reason stays while a replica waits as before": {job: queued(), pods: []*corev1.Pod{worker0}, want: "Queued"},
		"the reason changes when all replicas run": {
			job: queued(), pods: []*corev1.Pod{worker0, pod("job-worker-1", running)}, want: "ReplicasRunning",
		},
		"the reason changes when a replica that ran is restarted": {
			job: ran().Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: "Restarting",
		},
		"the reason changes after a change of the spec": {
			job: ofOldSpec, pods: []*corev1.Pod{worker0, waiting}, want: "Pending",
		},
		"the reason is Pending if none was recorded": {
			job: job(role("worker", 2)), pods: []*corev1.Pod{worker0, waiting}, want: "Pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seeing(tc.pods...)
			seen.Admission = &admitting{standing: view.Standing{Unknown: true}}
			diff(t, "reason", tc.want, plan.Decide(tc.job.Job, seen, now).Status.Reason)
		})
	}
}

// unknown returns an observation with pods. The controller does not know yet whether the object of the admission
// exists.
func unknown(pods ...*corev1.Pod) view.Observation {
	return standingOf(view.Standing{Unknown: true}, pods...)
}

func TestPhaseStaysWhileTheAdmissionIsUnknown(t *testing.T) {
	t.Parallel()
	waiting := pod("job-worker-1")
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want batchv1beta1.JobPhase
	}{
		"a job whose leader was unreachable stays Unknown": {
			job:  job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", unreachable), waiting),
			pods: []*corev1.Pod{pod("job-worker-0"), waiting}, want: batchv1beta1.JobPhaseUnknown,
		},
		"an elastic job that waited stays Pending, although enough of its replicas run": {
			job:  job(role("worker", 0)).Elastic(1, 2).Saw(time.Minute).Saw(time.Minute, pod("job-worker-0"), waiting),
			pods: []*corev1.Pod{pod("job-worker-0", running), waiting}, want: phasePending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "phase", tc.want, tc.job.DecideAt(now, unknown(tc.pods...)).Status.Phase)
		})
	}
}

func TestAJobThatHasNoStatusDoesNotExplainItsPodsWhileTheAdmissionIsUnknown(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).DecideAt(now, unknown(pod("job-worker-0", running), pod("job-worker-1")))
	diff(t, "Running", condition{"False", batchv1beta1.ReasonPending, "the replicas were starting"},
		conditionOf(d, batchv1beta1.ConditionRunning))
}
