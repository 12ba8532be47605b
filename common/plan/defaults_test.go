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

// unrecorded changes a job as if an earlier version of the controller had started it: its status has no defaults.
func unrecorded(j *jobBuilder) *jobBuilder {
	j.Status.Defaults = nil
	return j
}

func TestDefaultsAreRecorded(t *testing.T) {
	t.Parallel()
	defaults := func(scope batchv1beta1.PolicyDefault) *batchv1beta1.PolicyDefaults {
		return &batchv1beta1.PolicyDefaults{RestartScope: scope, ProgressPolicy: "Notify", BadNodePolicy: "Avoid"}
	}
	later := func(scope batchv1beta1.RestartScope, j *jobBuilder) *jobBuilder {
		j.Spec.DefaultRestartScope = scope
		return j
	}
	elastic := func() *jobBuilder {
		j := job(role("worker", 2)).Elastic(1, 2)
		j.Spec.DefaultRestartScope = scopeRendezvous
		return j
	}
	elsewhere := ran()
	elsewhere.Spec.ManagedBy = batchv1beta1.ManagedByMultiKueue
	halfRecorded := ran()
	halfRecorded.Status.Defaults = defaults("Half")
	for name, tc := range map[string]struct {
		job  *jobBuilder
		seen view.Observation
		want *batchv1beta1.PolicyDefaults
	}{
		"when a job starts": {job(role("worker", 2)), seeing(), defaults("Job")},
		"with the first status, if its write was delayed until the job runs": {
			job(role("worker", 2)), seeing(runningPods()...), defaults("Job"),
		},
		"of a job with a rendezvous": {elastic(), seeing(), defaults("Rendezvous")},
		"also for fields that the spec sets": {
			job(role("worker", 2)).Scope(scopeReplica), seeing(), defaults("Job"),
		},
		"not before the job is admitted": {
			job(role("worker", 2)), standingOf(view.Standing{Waits: true}), nil,
		},
		"once: they stay while the job waits for another admission": {
			later(scopeReplica, ran()), evictedFrom(seeing(runningPods()...)), defaults("Job"),
		},
		"not while the job is paused": {job(role("worker", 2)).Paused(true), seeing(), nil},
		"once: they stay although this version has another default": {
			later(scopeReplica, ran()), seeing(pod("job-worker-0", running), pod("job-worker-1", exited(1))), defaults("Job"),
		},
		"once: they stay after the end of the job": {
			later(scopeReplica, ran()), seeing(pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))), defaults("Job"),
		},
		"until the job is paused": {ran().Paused(true), seeing(runningPods()...), nil},
		"again when the job is resumed, with the default of this version": {
			later(scopeReplica, wasPaused().Paused(false)), seeing(), defaults("Replica"),
		},
		"not of a job of an earlier version while nothing changes": {
			unrecorded(ran()), seeing(runningPods()...), nil,
		},
		"of a job of an earlier version, when its status changes": {
			unrecorded(ran()), seeing(pod("job-worker-0", running), pod("job-worker-1", running, onNode("a"))),
			defaults("Job"),
		},
		"not of a job whose end an earlier version has decided": {
			unrecorded(ran().Saw(time.Minute, pod("job-worker-0", exited(0)), pod("job-worker-1", running))),
			seeing(pod("job-worker-0", exited(0))), nil,
		},
		"not of a job that runs in another cluster": {unrecorded(elsewhere), seeing(), nil},
		"not of a job without replicas that runs in another cluster": {
			withoutReplicas(dispatched(unrecorded(ran()).Status)), queued(), nil,
		},
		"once: a word that only a later version knows stays": {
			halfRecorded, seeing(pod("job-worker-0", running), pod("job-worker-1", running, onNode("a"))), defaults("Half"),
		},
	} {
		t.Run("the defaults are recorded "+name, func(t *testing.T) {
			t.Parallel()
			diff(t, "status.defaults", tc.want, tc.job.DecideAt(now, tc.seen).Status.Defaults)
		})
	}
}

// The defaults are only written together with another change of the status, and they do not make that write urgent.
func TestDefaultsCostNoWrite(t *testing.T) {
	t.Parallel()
	old := unrecorded(ran())
	same := old.Sees(runningPods()...)
	diff(t, "whether a job of an earlier version is written", false, plan.ChangesStatus(old.Job, same))
	moved := old.Sees(pod("job-worker-0", running), pod("job-worker-1", running, onNode("a")))
	diff(t, "delay of the write that adds the defaults", time.Minute, plan.StatusDelay(old.Job, moved, time.Minute))
	started := job(role("worker", 2))
	diff(t, "delay of the first write", time.Minute, plan.StatusDelay(started.Job, started.Sees(), time.Minute))
}

// The status of each of these jobs has recorded defaults that differ from the defaults in the code.
func TestRecordedDefaultsDecide(t *testing.T) {
	t.Parallel()
	recorded := func(j *jobBuilder, scope, progress, badNode batchv1beta1.PolicyDefault) *jobBuilder {
		j.Status.Defaults = &batchv1beta1.PolicyDefaults{
			RestartScope: scope, ProgressPolicy: progress, BadNodePolicy: badNode,
		}
		return j
	}
	ranAs := func(scope batchv1beta1.RestartScope, recordedScope batchv1beta1.PolicyDefault) *jobBuilder {
		j := ran()
		j.Spec.DefaultRestartScope = scope
		return recorded(j, recordedScope, "Notify", "Avoid")
	}
	elasticAs := func(scope batchv1beta1.RestartScope, recordedScope batchv1beta1.PolicyDefault) *jobBuilder {
		j := ranAs("", recordedScope).Elastic(1, 2)
		j.Spec.DefaultRestartScope = scope
		return j
	}
	all := []string{created("job-worker-0", "1"), created("job-worker-1", "1")}
	alone := []string{created("job-worker-1", "0.1")}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		code int32
		want []string
	}{
		"all replicas restart, although the default is now Replica": {ranAs(scopeReplica, "Job"), 1, all},
		"one replica restarts, although the default is now Job":     {ranAs(scopeJob, "Replica"), 1, alone},
		"all replicas restart, although there is no rendezvous now": {ranAs(scopeReplica, "Rendezvous"), 1, all},
		"a killed replica restarts alone, as its rendezvous allows": {elasticAs(scopeJob, "Rendezvous"), 137, alone},
		"one replica restarts, although there is now a rendezvous":  {elasticAs(scopeRendezvous, "Replica"), 1, alone},
		"the spec takes precedence over Job":                        {ranAs(scopeJob, "Job").Scope(scopeReplica), 1, alone},
		"the spec takes precedence over Replica":                    {ranAs(scopeReplica, "Replica").Scope(scopeJob), 1, all},
		"the spec takes precedence over Rendezvous": {
			elasticAs(scopeRendezvous, "Rendezvous").Scope(scopeReplica), 1, alone,
		},
		"the default in the code holds for an unknown word": {ranAs(scopeReplica, "Half"), 1, alone},
		"the default in the code holds without a record":    {unrecorded(ranAs(scopeReplica, "")), 1, alone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(tc.code))}
			tc.job.Status = tc.job.Sees(failed...).Status
			diff(t, "created pods", tc.want, summarize(tc.job.Sees(remaining(tc.job, failed)...)).Creates)
		})
	}

	t.Run("a stall restarts the job, although the default is Notify", func(t *testing.T) {
		t.Parallel()
		j := ran().Reporting(60, 0, "")
		meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionRunning).LastTransitionTime = ago(time.Hour)
		seen := reading(readings{"job-worker-0": step(10, time.Hour), "job-worker-1": step(10, time.Hour)}, runningPods()...)
		diff(t, "stall", batchv1beta1.ProgressPolicyNotify,
			recorded(j, "Job", "Notify", "Avoid").DecideAt(now, seen).Stall.Reaction())
		diff(t, "stall", batchv1beta1.ProgressPolicyRestart,
			recorded(j, "Job", "Restart", "Avoid").DecideAt(now, seen).Stall.Reaction())
		j.Reporting(60, 0, batchv1beta1.ProgressPolicyNotify)
		diff(t, "stall if the spec sets Notify", batchv1beta1.ProgressPolicyNotify, j.DecideAt(now, seen).Stall.Reaction())
	})

	t.Run("a bad node is not avoided, although the default is Avoid", func(t *testing.T) {
		t.Parallel()
		avoided := func(j *jobBuilder) int {
			j.AvoidingNodes(time.Hour)
			j.Status.AvoidedNodes = []batchv1beta1.AvoidedNode{
				{Name: "bad", Reason: batchv1beta1.ReasonNodeLost, Since: ago(time.Minute), Until: ago(-time.Hour)},
			}
			return len(j.Sees(runningPods()...).Status.AvoidedNodes)
		}
		diff(t, "avoided nodes", 1, avoided(recorded(ran(), "Job", "Notify", "Avoid")))
		diff(t, "avoided nodes", 0, avoided(recorded(ran(), "Job", "Notify", "Ignore")))
		set := recorded(ran(), "Job", "Notify", "Ignore")
		set.Spec.RunPolicy.BadNodePolicy = batchv1beta1.BadNodePolicyAvoid
		diff(t, "avoided nodes if the spec sets Avoid", 1, avoided(set))
	})
}

// remaining returns the pods that the decision about the job does not delete.
func remaining(j *jobBuilder, pods []*corev1.Pod) []*corev1.Pod {
	deleted := map[string]bool{}
	for _, name := range names(j.Sees(pods...).Deletes) {
		deleted[name] = true
	}
	var left []*corev1.Pod
	for _, p := range pods {
		if !deleted[p.Name] {
			left = append(left, p)
		}
	}
	return left
}
