package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// scaling returns an elastic job of three replicas that ran a minute ago, all but those that are left out.
func scaling(pods ...*corev1.Pod) *jobBuilder {
	return job(role("worker", 0)).Elastic(1, 3).Saw(time.Minute).Saw(time.Minute, pods...)
}

// listed returns the names of the replicas that a status lists.
func listed(status batchv1beta1.JobStatus) []string {
	var names []string
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestElasticJobScales(t *testing.T) {
	t.Parallel()
	worker0, worker1, worker2 := pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want summary
		// wantReplicas are those that the status lists.
		wantReplicas []string
	}{
		"up, by the indices that are free": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 4),
			pods: []*corev1.Pod{worker0, worker1, worker2},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3"},
		},
		"down, from the highest index": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 1),
			pods: []*corev1.Pod{worker0, worker1, worker2},
			want: summary{
				Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1", "job-worker-2"},
			},
			wantReplicas: []string{"job-worker-0"},
		},
		"down, and what does not run goes first": {
			job:          scaling(worker0, pod("job-worker-1", unschedulable), worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", unschedulable), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"down, and what fails goes first, which counts as no failure": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", exited(1)), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"down, and what is being deleted goes first": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", running, deleting), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning"},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"down, and what has succeeded stays": {
			job:          scaling(worker0, pod("job-worker-1", unschedulable), pod("job-worker-2", exited(0))).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", unschedulable), pod("job-worker-2", exited(0))},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"down, and the leader stays, whatever it does": {
			job:          scaling(worker1, worker2).Elastic(1, 1),
			pods:         []*corev1.Pod{pod("job-worker-0"), worker1, worker2},
			want:         summary{Phase: phasePending, Reason: "Pending", Deletes: []string{"job-worker-1", "job-worker-2"}},
			wantReplicas: []string{"job-worker-0"},
		},
		"down, and a crash left the pods there": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2),
			pods:         []*corev1.Pod{worker0, worker1, worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-2"}},
			wantReplicas: []string{"job-worker-0", "job-worker-1"},
		},
		"up again, but not by an index whose former pod is still there": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2).Elastic(1, 3),
			pods: []*corev1.Pod{worker0, worker1, pod("job-worker-2", running, deleting)},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-3"},
		},
		"up again, and nothing is adopted that was given up": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2).Elastic(1, 3),
			pods: []*corev1.Pod{worker0, worker1, pod("job-worker-2", exited(1))},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Deletes: []string{"job-worker-2"},
				Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-3"},
		},
		"not up when it ends": {
			job: scaling(worker0, worker1, worker2).Elastic(1, 5),
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)), pod("job-worker-2", exited(0)),
			},
			want:         summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"not up after its end": {
			job: scaling(worker0, worker1, worker2).Saw(0, pod("job-worker-0", exited(0)), worker1,
				worker2).Elastic(1, 5),
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)), pod("job-worker-2", exited(0)),
			},
			want:         summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"not down after its end": {
			job: scaling(worker0, worker1, worker2).Saw(0, pod("job-worker-0", exited(0)), worker1,
				worker2).Elastic(1, 1),
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)), pod("job-worker-2", exited(0)),
			},
			want:         summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "decision", tc.want, summarize(d))
			diff(t, "replicas", tc.wantReplicas, listed(d.Status))
		})
	}
}

// A job that scales says so, once.
func TestScaledEvent(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)}
	scaled := func(j *jobBuilder, pods ...*corev1.Pod) []report.Event {
		var list []report.Event
		for _, e := range j.Sees(pods...).Events {
			if e.Reason == "Scaled" {
				list = append(list, e)
			}
		}
		return list
	}
	diff(t, "events at first", []report.Event(nil), scaled(job(role("worker", 0)).Elastic(1, 3), pods...))
	diff(t, "events when it scales", []report.Event{
		{
			Type: "Normal", Reason: "Scaled", Action: "Scale", Message: "scaled from 3 to 1 replicas",
			Facts: []any{"from", 3, "to", 1},
		},
	},
		scaled(scaling(pods...).Elastic(1, 1), pods...))
	diff(t, "events then", []report.Event(nil), scaled(scaling(pods...).Elastic(1, 1).Saw(0, pods...), pods...))
	paused := scaling(pods...).Paused(true).Saw(0, pods...).Saw(0)
	diff(t, "events while it is paused", []report.Event(nil), scaled(paused.Elastic(1, 5)))
	edited := ran()
	edited.Spec.Roles[0].Replicas = 3
	diff(t, "events of a job that is not elastic", []report.Event(nil), scaled(edited, pods[0], pods[1]))
	diff(t, "events when it ends with fewer", []report.Event(nil),
		scaled(scaling(pods...).Elastic(1, 1), pod("job-worker-0", exited(0)), pods[1], pods[2]))
	diff(t, "events when it ends", []report.Event(nil),
		scaled(scaling(pods...).Elastic(1, 5), pod("job-worker-0", exited(0)), pods[1], pods[2]))
}

// Roles share the replicas. One may shrink while another grows.
func TestEachRoleScalesByItself(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-a-0", running), pod("job-a-1", running), pod("job-b-0", running)}
	j := job(role("a", 2), role("b", 1)).Elastic(1, 2)
	j.Saw(time.Minute).Saw(time.Minute, pods...)
	j.Spec.Roles[0].Replicas, j.Spec.Roles[1].Replicas = 1, 3
	d := j.Sees(pods...)
	diff(t, "replicas", []string{"job-a-0", "job-b-0", "job-b-1", "job-b-2"}, listed(d.Status))
	diff(t, "deletions", []string{"job-a-1"}, names(d.Deletes))
	diff(t, "creations", []string{"job-b-1", "job-b-2"}, names(podsToCreate(d)))
	j.Spec.Roles[0].Replicas, j.Spec.Roles[1].Replicas = 3, 1
	diff(t, "need of a live read when the first role grows", true, j.Sees(pods...).NeedsLiveRead)
}

// A replica has the rank that follows from the replicas that the job has now.
func TestRankOfAReplicaFollowsTheScale(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-a-0", running), pod("job-a-1", running), pod("job-b-0", running)}
	j := job(role("a", 2), role("b", 1)).Elastic(1, 2)
	j.Spec.RanksAreReplicas = true
	j.Saw(time.Minute).Saw(time.Minute, pods...)
	j.Spec.Roles[0].Replicas = 1
	d := j.Sees(pods[0], pods[1], pod("job-b-0", exited(1)))
	diff(t, "replicas", []string{"job-a-0", "job-b-0"}, listed(d.Status))
	diff(t, "rank of the replica that failed", new(int32(1)), d.Status.Failures[0].Rank)
}

// A job keeps the indices of its replicas until none of its pods is left.
func TestIndicesOfAnElasticJob(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	two := func() *jobBuilder {
		return scaling(worker0, worker2).Elastic(1, 2).Saw(time.Minute, worker0, worker2)
	}
	pausing := func() *jobBuilder { return two().Paused(true).Saw(0, worker0, worker2) }
	withForeignEntry := two()
	withForeignEntry.Status.Tasks[0].Replicas[1].Name = "job-worker-b"
	kept, anew := []string{"job-worker-0", "job-worker-2"}, []string{"job-worker-0", "job-worker-1"}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []string
	}{
		"a job whose pods are gone keeps them":          {job: two(), want: kept},
		"a job whose pods are gone is paused with them": {job: two().Paused(true), want: kept},
		"a pause keeps them, whatever the user expects": {
			job: pausing().Elastic(1, 1), pods: []*corev1.Pod{worker0}, want: kept,
		},
		"a pause whose last pod is gone drops them":           {job: pausing(), want: anew},
		"a job that is resumed before it was paused has them": {job: pausing().Paused(false), want: kept},
		"a job that is resumed from a pause has new ones":     {job: pausing().Saw(0).Paused(false), want: anew},
		"a job that is resumed has new ones, whatever pod is left": {
			job: pausing().Saw(0).Paused(false).Elastic(1, 3), pods: []*corev1.Pod{worker2},
			want: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"an entry of another name is no replica": {job: withForeignEntry, pods: []*corev1.Pod{worker0}, want: anew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "replicas", tc.want, listed(tc.job.Sees(tc.pods...).Status))
		})
	}
}

func TestElasticJobTrainsWithWhatFits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		least     int32
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		want      condition
	}{
		"all of it": {
			least:     2,
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)},
			wantPhase: phaseRunning,
			want:      condition{metav1.ConditionTrue, "ReplicasRunning", "all 3 replicas run or have ended"},
		},
		"enough of it": {
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
		"too little of it": {
			least:     2,
			pods:      []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", unschedulable), pod("job-worker-2")},
			wantPhase: phasePending,
			want: condition{
				metav1.ConditionFalse, "Unschedulable",
				"2 of 3 replicas do not run yet: job-worker-1 cannot be scheduled: 0/3 nodes are available",
			},
		},
		"all but its leader": {
			least: 1,
			pods: []*corev1.Pod{
				pod("job-worker-0", unschedulable), pod("job-worker-1", running), pod("job-worker-2", running),
			},
			wantPhase: phasePending,
			want: condition{
				metav1.ConditionFalse, "Unschedulable",
				"1 of 3 replicas do not run yet: job-worker-0 cannot be scheduled: 0/3 nodes are available",
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

// A replica that stays failed has done its part, but does not train.
func TestReplicasThatFailedDoNotTrain(t *testing.T) {
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

// A failure is recovered from when what failed runs again. Elastic training may still wait for replicas that never ran.
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
		"alone: it runs":             {scopeReplica, []*corev1.Pod{worker0, returned, never}, metav1.ConditionFalse},
		"alone: it does not run yet": {scopeReplica, []*corev1.Pod{worker0, never}, metav1.ConditionTrue},
		"as one: enough of them run": {
			scopeJob, []*corev1.Pod{pod("job-worker-0", again(1), running)}, metav1.ConditionFalse,
		},
		"as one: the leader does not yet": {
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

// What is added or given up depends on which pods there are, which a cache may have wrong.
func TestScalingIsDecidedOnWhatThereIs(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)}
	for name, tc := range map[string]struct {
		expected int32
		want     bool
	}{
		"nothing changes": {expected: 3, want: false},
		"it grows":        {expected: 4, want: true},
		"it shrinks":      {expected: 2, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "need of a live read", tc.want, scaling(pods...).Elastic(1, tc.expected).Sees(pods...).NeedsLiveRead)
		})
	}
}

// While the pods go that a pause takes, no replica is added: its name may be that of a pod which is still there. A job
// that is paused begins its indices anew.
func TestElasticJobPauses(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	j := scaling(worker0, worker2).Elastic(1, 2).Saw(time.Minute, worker0,
		worker2).Paused(true).Saw(0, worker0, worker2).Elastic(1, 3)
	diff(t, "replicas while pods are left", []string{"job-worker-0", "job-worker-2"}, listed(j.Sees(worker0).Status))
	paused := j.Saw(0).Saw(0)
	diff(t, "phase", phasePaused, paused.Status.Phase)
	diff(t, "replicas of a paused job", []string{"job-worker-0", "job-worker-1", "job-worker-2"}, listed(paused.Status))
	diff(t, "creations when it is resumed", []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		names(podsToCreate(paused.Paused(false).Sees())))
}

func TestTooFewReplicasAreLeft(t *testing.T) {
	t.Parallel()
	worker0, failed := pod("job-worker-0", running), pod("job-worker-1", exited(1))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"one fails now and is not restarted": {
			job:  job(role("worker", 0)).Elastic(2, 2).BackoffLimit(0).Saw(time.Minute, worker0, pod("job-worker-1", running)),
			pods: []*corev1.Pod{worker0, failed},
		},
		"one has failed, and its pod is gone": {
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

// A job may end before its first status is written, or that of a replica that it got.
func TestReplicasOfAJobThatEndsSoonAreListed(t *testing.T) {
	t.Parallel()
	ended := []*corev1.Pod{pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))}
	diff(t, "replicas of an elastic job", []string{"job-worker-0", "job-worker-1"},
		listed(job(role("worker", 0)).Elastic(1, 2).Sees(ended...).Status))
	edited := ran()
	edited.Spec.Roles[0].Replicas = 3
	diff(t, "replicas of a job that is not elastic", []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		listed(edited.Sees(ended...).Status))
}
