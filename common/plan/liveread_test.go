package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Decisions about PodGroups are in TestPlanPodGroup, and those about the size of elastic jobs in
// TestScalingIsDecidedOnWhatThereIs.
func TestNeedsLiveRead(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	restarted := ran().saw(0, worker0, pod("job-worker-1", exited(1)))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want bool
	}{
		"the first pods of a job": {job: job(role("worker", 2))},
		"nothing":                 {job: ran(), pods: []*corev1.Pod{worker0, worker1}},
		"the success of a job":    {job: ran(), pods: []*corev1.Pod{pod("job-worker-0", exited(0)), worker1}},
		"a failure that restarts all": {
			job: ran(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure that restarts one replica": {
			job: ran().scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure whose peers have yet to report": {
			job:  ran().window(2 * time.Second),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a failure that is recorded and whose peers have yet to report": {
			job:  ran().window(2*time.Second).saw(0, worker0, pod("job-worker-1", exited(1))),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"a failure that ends the job": {
			job: ran().backoffLimit(0), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))}, want: true,
		},
		"a success that is to run again": {
			job: job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).scope(scopeReplica).
				saw(time.Minute, worker0, worker1),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))},
		},
		"pods of an earlier attempt": {
			job: restarted, pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(1))},
		},
		"the first pods of a new attempt": {job: restarted, want: true},
		"a pod that is not the recorded one": {
			job: ran(), pods: []*corev1.Pod{worker0, another("job-worker-1")}, want: true,
		},
		"the end of an attempt, by a pause": {
			job: ran().paused(true), pods: []*corev1.Pod{worker0, worker1}, want: true,
		},
		"a pause that goes on": {
			job: ran().paused(true).saw(0, worker0, worker1), pods: []*corev1.Pod{worker1},
		},
		"a pause whose last pod is gone": {job: ran().paused(true).saw(0, worker0, worker1), want: true},
		"a pod that appears in a paused job": {
			job: wasPaused(), pods: []*corev1.Pod{pod("job-worker-0", again(1))}, want: true,
		},
		"a clean-up": {
			job: finishedKeeping(batchv1beta1.CleanUpPolicyAll), pods: []*corev1.Pod{worker1},
		},
		"the end of a clean-up":                    {job: finishedKeeping(batchv1beta1.CleanUpPolicyAll)},
		"a pod that is gone though it was to stay": {job: finishedKeeping(batchv1beta1.CleanUpPolicyNone), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "need of a live read", tc.want, tc.job.sees(tc.pods...).NeedsLiveRead)
		})
	}
}

// another returns a running pod of the current attempt that is not the recorded one: it has another UID.
func another(name string) *corev1.Pod {
	p := pod(name, running)
	p.UID = "another"
	return p
}

// finishedKeeping returns a job that has finished while one peer ran, with a clean-up policy.
func finishedKeeping(cleanUp batchv1beta1.CleanUpPolicy) *jobBuilder {
	return ran().cleanUp(cleanUp).saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
}
