package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestElasticJobTrainsWithTheReplicasThatRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		least     int32
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		want      condition
	}{
		"the job runs with all replicas": {
			least:     2,
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)},
			wantPhase: phaseRunning,
			want:      condition{metav1.ConditionTrue, "ReplicasRunning", "all 3 replicas run or have ended"},
		},
		"the job runs with minReplicas": {
			least: 2,
			pods: []*corev1.Pod{
				pod("job-worker-0", running), pod("job-worker-1", unschedulable), pod("job-worker-2", running),
			},
			wantPhase: phaseRunning,
			want: condition{
				metav1.ConditionTrue, "PartiallyRunning",
				"2 of 3 replicas run, and elastic.minReplicas is 2: job-worker-1 cannot be scheduled: 0/3 nodes are available",
			},
		},
		"the job does not run with fewer than minReplicas": {
			least:     2,
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unschedulable), pod("job-worker-2")},
			wantPhase: phasePending,
			want: condition{
				metav1.ConditionFalse, "Unschedulable",
				"2 of 3 replicas are not running yet: job-worker-1 cannot be scheduled: 0/3 nodes are available",
			},
		},
		"the job does not run without its leader": {
			least: 1,
			pods: []*corev1.Pod{
				pod("job-worker-0", unschedulable), pod("job-worker-1", running), pod("job-worker-2", running),
			},
			wantPhase: phasePending,
			want: condition{
				metav1.ConditionFalse, "Unschedulable",
				"1 of 3 replicas is not running yet: job-worker-0 cannot be scheduled: 0/3 nodes are available",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := job(role("worker", 0)).Elastic(tc.least, 3).Saw(time.Minute).Sees(tc.pods...)
			diff(t, "phase", tc.wantPhase, d.Status.Phase)
			diff(t, "Running", tc.want, conditionOf(d, batchv1beta1.ConditionRunning))
			diff(t, "reason", tc.want.Reason, d.Status.Reason)
		})
	}
}

// The job does not wait for a replica that stays failed, but this replica does not count as training.
func TestFailedReplicasDoNotCountAsTraining(t *testing.T) {
	t.Parallel()
	failed := pod("job-worker-1", exited(1))
	j := job(restarting(role("worker", 0), batchv1beta1.RestartPolicyNever)).Elastic(2, 3).Saw(time.Hour).
		Saw(time.Minute, pod("job-worker-0", running), failed, pod("job-worker-2"))
	d := j.Sees(pod("job-worker-0", running), failed, pod("job-worker-2"))
	diff(t, "phase", phasePending, d.Status.Phase)

	d = j.Sees(pod("job-worker-0", running), failed, pod("job-worker-2", exited(1)))
	j.Status = d.Status
	d = j.Sees(pod("job-worker-0", running), failed, pod("job-worker-2", exited(1)))
	diff(t, "phase when all others have failed", phasePending, d.Status.Phase)
	diff(t, "Running when all others have failed", condition{
		metav1.ConditionFalse, "TooFewReplicas",
		"fewer replicas are left than elastic.minReplicas (2): the others failed and are not restarted",
	}, conditionOf(d, batchv1beta1.ConditionRunning))
}

// A job has recovered when the failed replicas run again. An elastic job can still wait for replicas that never ran.
func TestElasticJobRecovers(t *testing.T) {
	t.Parallel()
	worker0, failed, never := pod("job-worker-0", running), pod("job-worker-1", exited(1)), pod("job-worker-2",
		unschedulable)
	returned := pod("job-worker-1", againAlone(1), running)
	for name, tc := range map[string]struct {
		scope batchv1beta1.RestartScope
		pods  []*corev1.Pod
		want  metav1.ConditionStatus
	}{
		"with scope Replica, the job recovers when the failed replica runs": {
			scopeReplica, []*corev1.Pod{worker0, returned, never}, metav1.ConditionFalse,
		},
		"with scope Replica, the job has not recovered until the failed replica runs": {
			scopeReplica, []*corev1.Pod{worker0, never}, metav1.ConditionTrue,
		},
		"with scope Job, the job recovers when minReplicas run": {
			scopeJob, []*corev1.Pod{pod("job-worker-0", again(1), running)}, metav1.ConditionFalse,
		},
		"with scope Job, the job has not recovered until the leader runs": {
			scopeJob, []*corev1.Pod{pod("job-worker-1", again(1), running)}, metav1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 0)).Elastic(1, 3).Scope(tc.scope).Saw(time.Hour).Saw(time.Hour, worker0,
				pod("job-worker-1", running), never).
				Saw(time.Minute, worker0, failed, never)
			got := conditionOf(j.Sees(tc.pods...), batchv1beta1.ConditionReplicaFailure)
			diff(t, "ReplicaFailure", tc.want, got.Status)
			if got.Status == metav1.ConditionFalse {
				diff(t, "message", "the job trains again", got.Message)
			}
		})
	}
}

// While a pause deletes pods, no replica is added, because a pod of the same name might still exist. A paused job
// starts again with the indices from 0.
func TestElasticJobPauses(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	j := scaling(worker0, worker2).Elastic(1, 2).Saw(time.Minute, worker0,
		worker2).Paused(true).Saw(0, worker0, worker2).Elastic(1, 3)
	diff(t, "replicas while pods are left", []string{"job-worker-0", "job-worker-2"}, listed(j.Sees(worker0).Status))
	paused := j.Saw(0).Saw(0)
	diff(t, "phase", phasePaused, paused.Status.Phase)
	diff(t, "replicas of a paused job", []string{"job-worker-0", "job-worker-1", "job-worker-2"}, listed(paused.Status))
	diff(t, "creations after the resume", []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		names(podsToCreate(paused.Paused(false).Sees())))
}

func TestTooFewReplicasAreLeft(t *testing.T) {
	t.Parallel()
	worker0, failed := pod("job-worker-0", running), pod("job-worker-1", exited(1))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"a replica fails now and is not restarted": {
			job:  job(role("worker", 0)).Elastic(2, 2).BackoffLimit(0).Saw(time.Minute, worker0, pod("job-worker-1", running)),
			pods: []*corev1.Pod{worker0, failed},
		},
		"a replica has failed and its pod is gone": {
			job: job(role("worker", 0)).Elastic(2, 2).BackoffLimit(0).Saw(time.Minute, worker0, pod("job-worker-1", running)).
				Saw(time.Minute, worker0, failed),
			pods: []*corev1.Pod{worker0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "reason", batchv1beta1.ReasonTooFewReplicas, summarize(tc.job.Sees(tc.pods...)).Reason)
		})
	}
}

// A job can end before its first status is written, or before its status lists a new replica.
func TestStatusListsTheReplicasOfAJobThatEndsEarly(t *testing.T) {
	t.Parallel()
	ended := []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))}
	diff(t, "replicas of an elastic job", []string{"job-worker-0", "job-worker-1"},
		listed(job(role("worker", 0)).Elastic(1, 2).Sees(ended...).Status))
	edited := ran()
	edited.Spec.Roles[0].Replicas = 3
	diff(t, "replicas of a job that is not elastic", []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		listed(edited.Sees(ended...).Status))
}
