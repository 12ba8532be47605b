package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

func TestElasticJobScales(t *testing.T) {
	t.Parallel()
	worker0, worker1, worker2 := pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want summary
		// wantReplicas are the names of the replicas that the status lists.
		wantReplicas []string
	}{
		"the job scales up with free indices": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 4),
			pods: []*corev1.Pod{worker0, worker1, worker2},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3"},
		},
		"the job scales down from the highest index": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 1),
			pods: []*corev1.Pod{worker0, worker1, worker2},
			want: summary{
				Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1", "job-worker-2"},
			},
			wantReplicas: []string{"job-worker-0"},
		},
		"replicas that do not run are removed before running ones": {
			job:          scaling(worker0, pod("job-worker-1", unschedulable), worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", unschedulable), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"failed replicas are removed before running ones, and their failures do not count": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", exited(1)), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"replicas that are being deleted are removed before running ones": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", running, deleting), worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning"},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"the job scales down and keeps replicas that have succeeded": {
			job:          scaling(worker0, pod("job-worker-1", unschedulable), pod("job-worker-2", exited(0))).Elastic(1, 2),
			pods:         []*corev1.Pod{worker0, pod("job-worker-1", unschedulable), pod("job-worker-2", exited(0))},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-1"}},
			wantReplicas: []string{"job-worker-0", "job-worker-2"},
		},
		"the job scales down and keeps the leader, whatever its state": {
			job:          scaling(worker1, worker2).Elastic(1, 1),
			pods:         []*corev1.Pod{pod("job-worker-0"), worker1, worker2},
			want:         summary{Phase: phasePending, Reason: "Pending", Deletes: []string{"job-worker-1", "job-worker-2"}},
			wantReplicas: []string{"job-worker-0"},
		},
		"the job deletes pods that a crash left after it scaled down": {
			job:          scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2),
			pods:         []*corev1.Pod{worker0, worker1, worker2},
			want:         summary{Phase: phaseRunning, Reason: "ReplicasRunning", Deletes: []string{"job-worker-2"}},
			wantReplicas: []string{"job-worker-0", "job-worker-1"},
		},
		"the job scales up again without an index whose former pod exists": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2).Elastic(1, 3),
			pods: []*corev1.Pod{worker0, worker1, pod("job-worker-2", running, deleting)},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-3"},
		},
		"the job scales up again and does not adopt the pod of a removed replica": {
			job:  scaling(worker0, worker1, worker2).Elastic(1, 2).Saw(0, worker0, worker1, worker2).Elastic(1, 3),
			pods: []*corev1.Pod{worker0, worker1, pod("job-worker-2", exited(1))},
			want: summary{
				Phase: phaseRunning, Reason: "PartiallyRunning", Deletes: []string{"job-worker-2"},
				Creates: []string{created("job-worker-3", "0")},
			},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-3"},
		},
		"the job does not scale up when it ends": {
			job: scaling(worker0, worker1, worker2).Elastic(1, 5),
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)), pod("job-worker-2", exited(0)),
			},
			want:         summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"the job does not scale up after its end": {
			job: scaling(worker0, worker1, worker2).Saw(0, pod("job-worker-0", exited(0)), worker1,
				worker2).Elastic(1, 5),
			pods: []*corev1.Pod{
				pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)), pod("job-worker-2", exited(0)),
			},
			want:         summary{Phase: batchv1beta1.JobPhaseSucceeded, Reason: "LeaderSucceeded"},
			wantReplicas: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"the job does not scale down after its end": {
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

// A job that scales emits one event.
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
	diff(t, "events of a new job", []report.Event(nil), scaled(job(role("worker", 0)).Elastic(1, 3), pods...))
	diff(t, "events when it scales", []report.Event{
		{
			Type: "Normal", Reason: "Scaled", Action: "Scale", Message: "scaled from 3 to 1 replica",
			Facts: []any{"from", 3, "to", 1},
		},
	},
		scaled(scaling(pods...).Elastic(1, 1), pods...))
	diff(t, "events of the next reconcile", []report.Event(nil),
		scaled(scaling(pods...).Elastic(1, 1).Saw(0, pods...), pods...))
	paused := scaling(pods...).Paused(true).Saw(0, pods...).Saw(0)
	diff(t, "events of a paused job", []report.Event(nil), scaled(paused.Elastic(1, 5)))
	edited := ran()
	edited.Spec.Roles[0].Replicas = 3
	diff(t, "events of a job that is not elastic", []report.Event(nil), scaled(edited, pods[0], pods[1]))
	diff(t, "events of a job that ends and would scale down", []report.Event(nil),
		scaled(scaling(pods...).Elastic(1, 1), pod("job-worker-0", exited(0)), pods[1], pods[2]))
	diff(t, "events of a job that ends and would scale up", []report.Event(nil),
		scaled(scaling(pods...).Elastic(1, 5), pod("job-worker-0", exited(0)), pods[1], pods[2]))
}

// In an elastic job, each role has its own share of the replicas. One role can shrink while another grows.
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
	diff(t, "NeedsLiveRead when the first role grows", true, j.Sees(pods...).NeedsLiveRead)
}

// The rank of a replica depends on the current replicas of the job.
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

// A job keeps the indices of its replicas until a pause has deleted all of its pods.
func TestIndicesOfAnElasticJob(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	two := func() *jobBuilder {
		return scaling(worker0, worker2).Elastic(1, 2).Saw(time.Minute, worker0, worker2)
	}
	pausing := func() *jobBuilder { return two().Paused(true).Saw(0, worker0, worker2) }
	withForeignEntry := two()
	withForeignEntry.Status.Tasks[0].Replicas[1].Name = "job-worker-b"
	kept, renumbered := []string{"job-worker-0", "job-worker-2"}, []string{"job-worker-0", "job-worker-1"}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []string
	}{
		"a job whose pods are gone keeps its indices":                         {job: two(), want: kept},
		"a job whose pods are gone keeps its indices when the user pauses it": {job: two().Paused(true), want: kept},
		"a job keeps its indices while a pause deletes its pods, even if it is scaled": {
			job: pausing().Elastic(1, 1), pods: []*corev1.Pod{worker0}, want: kept,
		},
		"a job has new indices when a pause has deleted its last pod":  {job: pausing(), want: renumbered},
		"a job that is resumed before it was paused keeps its indices": {job: pausing().Paused(false), want: kept},
		"a resumed job has new indices": {
			job: pausing().Saw(0).Paused(false), want: renumbered,
		},
		"a resumed job has new indices even if a pod is left": {
			job: pausing().Saw(0).Paused(false).Elastic(1, 3), pods: []*corev1.Pod{worker2},
			want: []string{"job-worker-0", "job-worker-1", "job-worker-2"},
		},
		"an entry whose name has no index is ignored": {
			job: withForeignEntry, pods: []*corev1.Pod{worker0}, want: renumbered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "replicas", tc.want, listed(tc.job.Sees(tc.pods...).Status))
		})
	}
}

// Scaling depends on which pods exist, and a cache can be stale.
func TestScalingRequiresALiveRead(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running), pod("job-worker-2", running)}
	for name, tc := range map[string]struct {
		expected int32
		want     bool
	}{
		"an unchanged size requires no live read": {expected: 3, want: false},
		"growing requires a live read":            {expected: 4, want: true},
		"shrinking requires a live read":          {expected: 2, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "NeedsLiveRead", tc.want, scaling(pods...).Elastic(1, tc.expected).Sees(pods...).NeedsLiveRead)
		})
	}
}
