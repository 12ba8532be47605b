package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// admittedBy labels a pod as admitted by the object with the given UID.
func admittedBy(uid string) podOption {
	return func(p *corev1.Pod) { p.Labels[batchv1beta1.LabelAdmittedBy] = uid }
}

// standingOf returns an observation with pods and an admission with the given standing.
func standingOf(standing view.Standing, pods ...*corev1.Pod) view.Observation {
	seen := seeing(pods...)
	seen.Admission = &admitting{standing: standing}
	return seen
}

// evictedFrom returns the observation with an admission that is withdrawn.
func evictedFrom(seen view.Observation) view.Observation {
	seen.Admission = &admitting{standing: view.Standing{Waits: true, Stops: "the job was evicted"}}
	return seen
}

func TestStandingOfAnAdmission(t *testing.T) {
	t.Parallel()
	by := func(uid string) []*corev1.Pod {
		return []*corev1.Pod{
			pod("job-worker-0", running, admittedBy(uid)), pod("job-worker-1", running, admittedBy(uid)),
		}
	}
	ended := pod("job-worker-1", exited(0), admittedBy("earlier"))
	for name, tc := range map[string]struct {
		job      *jobBuilder
		standing view.Standing
		pods     []*corev1.Pod

		wantEvictions int32
		wantStarted   bool
	}{
		"a job whose pods are admitted goes on": {
			job: ran(), standing: view.Standing{AdmittedBy: "present"}, pods: by("present"), wantStarted: true,
		},
		"a job whose pods another object has admitted stops": {
			job: ran(), standing: view.Standing{AdmittedBy: "present"}, pods: by("earlier"), wantEvictions: 1,
		},
		"a replica that has ended does not stop its peers, although another object has admitted its pod": {
			job:      ran().Scope(scopeReplica).Saw(time.Minute, by("earlier")[0], ended),
			standing: view.Standing{AdmittedBy: "present"}, pods: []*corev1.Pod{by("present")[0], ended}, wantStarted: true,
		},
		"a new job that waits for its admission has not started": {
			job: job(role("worker", 2)), standing: view.Standing{Waits: true},
		},
		"a job that has pods has started, although its admission is unknown before its first status": {
			job: job(role("worker", 2)), standing: view.Standing{Waits: true}, pods: by("present"), wantStarted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, standingOf(tc.standing, tc.pods...))
			diff(t, "evictions", tc.wantEvictions, d.Status.Evictions)
			diff(t, "whether the job has started", tc.wantStarted, d.Status.StartTime != nil)
		})
	}
}

// The deadline of a job also applies between two attempts, when the job has no pods.
func TestAStartedJobEndsByItsDeadlineWhileItWaitsForAnAdmission(t *testing.T) {
	t.Parallel()
	d := ran().Deadline(60).DecideAt(now, standingOf(view.Standing{Waits: true}))
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhaseFailed, Reason: batchv1beta1.ReasonDeadlineExceeded,
	}, summarize(d))
}

func TestFirstStatusOfAJobThatIsEvictedBeforeIt(t *testing.T) {
	t.Parallel()
	d := job(role("worker", 2)).DecideAt(now, evictedFrom(seeing(runningPods()...)))
	diff(t, "observedGeneration", int64(1), d.Status.ObservedGeneration)
	diff(t, "selector", "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job", d.Status.Selector)
	diff(t, "evictions", int32(1), d.Status.Evictions)
}

// ReplicaFailure becomes False when the job is evicted during a recovery.
func TestEvictionEndsARecovery(t *testing.T) {
	t.Parallel()
	next := seeing(pod("job-worker-0", again(1)), pod("job-worker-1", again(1)))
	recovers := ran().Saw(time.Minute, pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1)))
	diff(t, "ReplicaFailure", condition{"False", batchv1beta1.ReasonQueued, "the job was evicted"},
		conditionOf(recovers.DecideAt(now, evictedFrom(next)), batchv1beta1.ConditionReplicaFailure))
	diff(t, "ReplicaFailure of a job that did not fail", condition{},
		conditionOf(ran().DecideAt(now, evictedFrom(seeing(runningPods()...))), batchv1beta1.ConditionReplicaFailure))
}

func TestAFailureCountsAlthoughTheJobIsEvicted(t *testing.T) {
	t.Parallel()
	d := ran().DecideAt(now, evictedFrom(seeing(pod("job-worker-0", running), pod("job-worker-1", exited(1)))))
	diff(t, "backoffCount", int32(1), d.Status.BackoffCount)
	diff(t, "evictions", int32(1), d.Status.Evictions)
	diff(t, "ReplicaFailure", condition{
		"True", batchv1beta1.ReasonError, "replica job-worker-1 failed with exit code 1 (Error) and is being replaced",
	}, conditionOf(d, batchv1beta1.ConditionReplicaFailure))
}
