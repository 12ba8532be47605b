package plan_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// held gives a pod the finalizer of leaders and another finalizer.
func held(p *corev1.Pod) { p.Finalizers = []string{"example.org/backup", batchv1beta1.FinalizerLeader} }

// expiring changes a pod so that its node is lost and its deletion by force is due.
func expiring(p *corev1.Pod) {
	onLostNode(p)
	p.DeletionTimestamp = new(metav1.NewTime(now.Add(-2 * time.Minute)))
}

func TestPodsAreReleased(t *testing.T) {
	t.Parallel()
	peer := pod("job-worker-1", running)
	peerFailedBefore := pod("job-worker-1", exitedAgo(1, 5*time.Minute))
	leaderWas := func(options ...podOption) *jobBuilder {
		return job(role("worker", 2)).Saw(time.Minute, pod("job-worker-0", running), peer).
			Saw(time.Second, pod("job-worker-0", options...), peer)
	}
	endedLeader := pod("job-worker-0", exitedAgo(0, time.Second), held)
	finished := func() *jobBuilder {
		return ran().Saw(time.Second, pod("job-worker-0", exitedAgo(0, time.Second)), pod("job-worker-1", exited(0)))
	}
	failedByAnEarlierVersion := ran()
	failedByAnEarlierVersion.Status.Phase = batchv1beta1.JobPhaseFailed
	isNotFailing := ran()
	isNotFailing.Status.Conditions = append(isNotFailing.Status.Conditions, metav1.Condition{
		Type: batchv1beta1.ConditionFailureTarget, Status: metav1.ConditionFalse, Reason: "Edited",
	})
	manyNames := []string{
		"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3", "job-worker-4", "job-worker-5", "job-worker-6",
	}
	var many []*corev1.Pod
	for _, name := range slices.Backward(manyNames) { // so that no order in which Go visits a map is sorted by luck
		many = append(many, pod(name, running, held))
	}
	leader, other := []string{"job-worker-0"}, []string{"job-worker-1"}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []string
	}{
		"no pod is released if none is held": {
			job: ran().Paused(true), pods: []*corev1.Pod{pod("job-worker-0", running), peer},
		},
		"the leader is held while it is pending": {
			job: job(role("worker", 2)), pods: []*corev1.Pod{pod("job-worker-0", held)},
		},
		"the leader is held while it trains": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", running, held), peer},
		},
		"the pod of another replica than the leader is released": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", running, held), pod("job-worker-1", running, held)}, want: other,
		},
		"a leader that succeeded is released when the end of the job is decided": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", exited(0), held), peer}, want: leader,
		},
		"a leader that succeeded 3 s before its deletion is released when the job ends": {
			job:  ran(),
			pods: []*corev1.Pod{pod("job-worker-0", exitedAgo(0, 3*time.Second), deleting, held), peer}, want: leader,
		},
		"a leader that failed is released when the job restarts": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", exited(1), held), peer}, want: leader,
		},
		"a leader that failed is held while the job awaits reports": {
			job: ran().Window(2 * time.Second), pods: []*corev1.Pod{pod("job-worker-0", exited(1), held), peer},
		},
		"a leader whose failure is already in the tasks is held while the job awaits reports": {
			job:  ran().Window(2*time.Second).Saw(time.Second, pod("job-worker-0", exitedAgo(1, time.Second)), peer),
			pods: []*corev1.Pod{pod("job-worker-0", exitedAgo(1, time.Second), held), peer},
		},
		"a leader that failed is held while a job that the user pauses awaits reports": {
			job:  ran().Window(2 * time.Second).Paused(true),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1), held), peer},
		},
		"a preempted leader is held while the job awaits reports of an earlier failure": {
			job:  ran().Window(time.Hour),
			pods: []*corev1.Pod{pod("job-worker-0", running, disrupted, deleting, held), peerFailedBefore},
		},
		"a leader that is deleted by force is released although the job awaits reports": {
			job:  ran().LoseNodesAfter(time.Minute).Window(time.Hour),
			pods: []*corev1.Pod{pod("job-worker-0", running, expiring, held), peerFailedBefore}, want: leader,
		},
		"a pod of a job without replicas is held": {
			job: job(role("worker", 0)), pods: []*corev1.Pod{pod("job-worker-0", running, held)},
		},
		"a pod of a job without replicas is released once somebody deletes it": {
			job: job(role("worker", 0)), pods: []*corev1.Pod{pod("job-worker-0", running, deleting, held)}, want: leader,
		},
		"the leader of an earlier attempt is released": {
			job:  ran().Saw(time.Second, pod("job-worker-0", exited(1)), peer),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1), held), peer}, want: leader,
		},
		"a leader that somebody deletes while it trains is released when the job restarts": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", running, deleting, held), peer}, want: leader,
		},
		"a leader that somebody deletes before all replicas have run is released": {
			job: job(role("worker", 2)), pods: []*corev1.Pod{pod("job-worker-0", deleting, held), peer}, want: leader,
		},
		"a preempted leader is released when the job restarts": {
			job: ran(), pods: []*corev1.Pod{pod("job-worker-0", running, disrupted, deleting, held), peer}, want: leader,
		},
		"a leader on a lost node is released when it is deleted by force": {
			job:  ran().LoseNodesAfter(time.Minute).Window(time.Hour),
			pods: []*corev1.Pod{pod("job-worker-0", running, expiring, held), peer}, want: leader,
		},
		"the leader of a job that is paused is released": {
			job: ran().Paused(true), pods: []*corev1.Pod{pod("job-worker-0", running, held), peer}, want: leader,
		},
		"a leader that appears in a paused job is released": {
			job: wasPaused(), pods: []*corev1.Pod{pod("job-worker-0", again(1), held)}, want: leader,
		},
		"all pods of a job that is being deleted are released in the order of their names": {
			job: deleted(ran()), pods: many, want: manyNames,
		},
		"the leader of a job that is being deleted is released": {
			job: deleted(ran()), pods: []*corev1.Pod{pod("job-worker-0", running, held), peer}, want: leader,
		},
		"the leader of a job whose end is decided is released": {
			job:  leaderWas(exitedAgo(0, time.Second)),
			pods: []*corev1.Pod{pod("job-worker-0", exitedAgo(0, time.Second), held), peer}, want: leader,
		},
		"the leader of a job that has finished is released": {
			job: finished(), pods: []*corev1.Pod{endedLeader}, want: leader,
		},
		"the leader of a job that an earlier version has failed is released": {
			job: failedByAnEarlierVersion, pods: []*corev1.Pod{pod("job-worker-0", running, held), peer}, want: leader,
		},
		"the leader is held although somebody has set FailureTarget to False": {
			job: isNotFailing, pods: []*corev1.Pod{pod("job-worker-0", running, held), peer},
		},
		"the leader of an expired job is released before the job is deleted": {
			job: finished().TTL(0), pods: []*corev1.Pod{endedLeader}, want: leader,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, holds := range []bool{false, true} {
				tc.job.HoldLeaders = holds
				d := tc.job.Sees(tc.pods...)
				diff(t, "pods to release", tc.want, names(d.Releases))
				if d.DeleteJob && len(tc.want) > 0 {
					t.Error("the job is deleted while one of its pods is held")
				}
			}
		})
	}
}

func TestPodsOfLeadersAreCreatedHeld(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		holds      bool
		wantLeader []string
	}{
		"with HoldLeaders, only the pod of the leader is held": {true, []string{batchv1beta1.FinalizerLeader}},
		"without HoldLeaders, no pod is held":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workers := role("worker", 2)
			workers.Template.Finalizers = []string{"example.org/template", batchv1beta1.FinalizerLeader}
			b := job(workers)
			b.HoldLeaders = tc.holds
			got := map[string][]string{}
			for _, p := range podsToCreate(b.Sees()) {
				got[p.Name] = p.Finalizers
			}
			diff(t, "finalizers", map[string][]string{"job-worker-0": tc.wantLeader, "job-worker-1": nil}, got)
		})
	}
}

func TestIsHeld(t *testing.T) {
	t.Parallel()
	diff(t, "a pod without finalizers", false, view.IsHeld(pod("p")))
	diff(t, "a pod with the finalizer of leaders", true, view.IsHeld(pod("p", held)))
}
