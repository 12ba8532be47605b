package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// admitting is a fake admission. It gives the same answer to every request and records the arguments of the last
// calls. Package admission has the real admissions.
type admitting struct {
	answer view.Answer
	need   view.Need
	// joined has the names of the new pods that became members. The field present has the names of the existing pods.
	joined, present []string
	// rest is the argument of the last call of Withdraw. Nil means that Withdraw was not called.
	rest *view.Rest
	// standing is the result of Standing.
	standing view.Standing
}

func (a *admitting) Request(_ *view.Job, need view.Need) view.Answer {
	a.need = need
	return a.answer
}

func (a *admitting) Join(_ *view.Job, creates []view.Creation, _ string, present []*corev1.Pod) {
	for _, c := range creates {
		a.joined = append(a.joined, c.Name)
	}
	a.present = append(a.present, names(present)...)
}

func (a *admitting) Withdraw(_ *view.Job, rest view.Rest) view.Answer {
	a.rest = &rest
	return view.Answer{}
}

func (a *admitting) Standing(types.UID) view.Standing { return a.standing }

func TestAdmissionRequest(t *testing.T) {
	t.Parallel()
	type result struct {
		Done, Spent     map[string]int32
		Ready           map[string]int32
		Scheduling      bool
		Joined, Present []string
	}
	nothing, one, both := map[string]int32{}, map[string]int32{"worker": 1}, map[string]int32{"worker": 2}
	worker0, failed := pod("job-worker-0", running), pod("job-worker-1", exited(1))
	restartsStalled := func() *jobBuilder {
		j := ran().Scope(scopeReplica)
		j.Spec.RunPolicy.ProgressPolicy = restart
		return j
	}
	staysFailed := func() *jobBuilder {
		return ran().Scope(scopeReplica).BackoffLimit(0).Saw(time.Minute, worker0, failed)
	}
	waiting, bound := pod("job-worker-1"), pod("job-worker-1", onNode("node-1"))
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want result
	}{
		"a new job needs nodes for all of its pods": {
			job:  job(role("worker", 2)),
			want: result{Done: nothing, Ready: nothing, Scheduling: true, Joined: []string{"job-worker-0", "job-worker-1"}},
		},
		"a running job needs no node": {
			job: ran(), pods: []*corev1.Pod{worker0, pod("job-worker-1", running)}, want: result{Done: nothing, Ready: both},
		},
		"a pending pod needs a node": {
			job: job(role("worker", 2)), pods: []*corev1.Pod{worker0, waiting},
			want: result{Done: nothing, Ready: one, Scheduling: true},
		},
		"a bound pod that has not started needs no other node": {
			job: job(role("worker", 2)), pods: []*corev1.Pod{worker0, bound},
			want: result{Done: nothing, Ready: one},
		},
		"a replica that succeeded is done and counts as ready": {
			job: ran(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))}, want: result{Done: one, Ready: both},
		},
		"a replica that succeeded and whose pod is gone is done": {
			job: ran().Saw(time.Minute, worker0, pod("job-worker-1", exited(0))), pods: []*corev1.Pod{worker0},
			want: result{Done: one, Ready: both},
		},
		"a replica that now fails permanently is done": {
			job: ran().Scope(scopeReplica).BackoffLimit(0), pods: []*corev1.Pod{worker0, failed},
			want: result{Done: one, Ready: both},
		},
		"a replica that failed permanently is done": {
			job: staysFailed(), pods: []*corev1.Pod{worker0, failed}, want: result{Done: one, Ready: both},
		},
		"a replica that failed permanently and whose pod is gone is done": {
			job: staysFailed(), pods: []*corev1.Pod{worker0}, want: result{Done: one, Ready: both},
		},
		"a replica that succeeded never runs again if replicas restart alone": {
			job: ran().Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))},
			want: result{Done: one, Spent: one, Ready: both},
		},
		"a replica that succeeded and whose pod is gone never runs again if replicas restart alone": {
			job:  ran().Scope(scopeReplica).Saw(time.Minute, worker0, pod("job-worker-1", exited(0))),
			pods: []*corev1.Pod{worker0}, want: result{Done: one, Spent: one, Ready: both},
		},
		"a replica that succeeded is not spent while a sidecar of its pod runs": {
			job: ran().Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0), sidecarRunning)},
			want: result{Done: one, Ready: both},
		},
		"a replica that succeeded can run again if a stall restarts all replicas": {
			job: restartsStalled(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))},
			want: result{Done: one, Ready: both},
		},
		"a replica of an elastic job can be replaced after it succeeded": {
			job:  ran().Scope(scopeReplica).Elastic(1, 2),
			pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(0))}, want: result{Done: one, Ready: both},
		},
		"all replicas of an elastic job that trains with fewer count as ready": {
			job:  ran().Scope(scopeReplica).Elastic(1, 2),
			pods: []*corev1.Pod{worker0, bound}, want: result{Done: nothing, Ready: both},
		},
		"a replacement pod joins the existing pods": {
			job: job(role("worker", 3)).Scope(scopeReplica), pods: []*corev1.Pod{worker0, pod("job-worker-2", exited(0))},
			want: result{
				Done: one, Spent: one, Ready: both, Scheduling: true,
				Joined: []string{"job-worker-1"}, Present: []string{"job-worker-0"},
			},
		},
		"a pod of an earlier attempt is replaced and does not count as an existing pod": {
			job: job(role("worker", 3)).Scope(scopeReplica).
				Saw(time.Minute, worker0, pod("job-worker-1", running), pod("job-worker-2", running)).
				Saw(0, worker0, failed, pod("job-worker-2", exited(1))),
			pods: []*corev1.Pod{worker0, failed},
			want: result{
				Done: nothing, Ready: one, Scheduling: true,
				Joined: []string{"job-worker-2"}, Present: []string{"job-worker-0"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &admitting{}
			seen := seeing(tc.pods...)
			seen.Admission = a
			plan.Decide(tc.job.Job, seen, now)
			if tc.want.Spent == nil {
				tc.want.Spent = nothing
			}
			diff(t, "need", tc.want, result{a.need.Done, a.need.Spent, a.need.Ready, a.need.Scheduling, a.joined, a.present})
		})
	}
}

func TestAdmissionAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer view.Answer
		want   summary
	}{
		"pods are created once they are admitted": {
			want: summary{Phase: phasePending, Reason: "Creating", Creates: []string{created("job-worker-0", "0")}},
		},
		"no pod is created while the admission has a problem": {
			answer: view.Answer{Problem: jobtest.ErrNotInstalled}, want: summary{Phase: phasePending, Reason: "NotInstalled"},
		},
		"no pod is created while the job is queued": {
			answer: view.Answer{Wait: &view.Wait{Reason: "Queued", Message: "it waits"}},
			want:   summary{Phase: phasePending, Reason: "Queued"},
		},
		"a queued job is requeued after RetryAfter": {
			answer: view.Answer{Wait: &view.Wait{Reason: "Queued", Message: "it waits"}, RetryAfter: time.Minute},
			want:   summary{Phase: phasePending, Reason: "Queued", RequeueIn: time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &admitting{answer: tc.answer}
			seen := seeing()
			seen.Admission = a
			d := plan.Decide(job(role("worker", 1)).Job, seen, now)
			diff(t, "decision", tc.want, summarize(d))
			diff(t, "whether the job is never requeued", tc.answer.RetryAfter == 0, d.RequeueAt.IsZero())
			diff(t, "number of pods that join", len(tc.want.Creates), len(a.joined))
		})
	}
}

// Kueue can admit only some of the replicas of an elastic job. The controller creates no pods for the others.
func TestNoMoreReplicasAreCreatedThanAreAdmitted(t *testing.T) {
	t.Parallel()
	worker0, worker2 := pod("job-worker-0", running), pod("job-worker-2", running)
	three := func() *jobBuilder {
		return job(role("worker", 3)).Scope(scopeReplica).Saw(time.Hour, worker0, pod("job-worker-1", running))
	}
	failedAgain := func() *jobBuilder {
		return three().Saw(10*time.Minute, worker0, pod("job-worker-1", exitedAgo(1, 10*time.Minute))).
			Saw(5*time.Second, worker0, pod("job-worker-1", exitedAgo(1, 5*time.Second), againAlone(1)))
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		at   time.Time
		want []string
	}{
		"a replica with a pod has a place": {
			job: three(), pods: []*corev1.Pod{worker0}, want: []string{created("job-worker-1", "0")},
		},
		"a replica that succeeded and whose pod is gone keeps its place": {
			job: three().Saw(time.Minute, worker0, pod("job-worker-1", exited(0))), pods: []*corev1.Pod{worker0},
		},
		"a replica that waits for its restart keeps its place": {job: failedAgain(), pods: []*corev1.Pod{worker0}},
		"a replica whose restart is due gets its place back": {
			job: failedAgain(), pods: []*corev1.Pod{worker0}, at: now.Add(time.Minute),
			want: []string{created("job-worker-1", "0.2")},
		},
		"no replica is created if enough others have pods": {
			job: three(), pods: []*corev1.Pod{worker0, worker2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.at.IsZero() {
				tc.at = now
			}
			seen := seeing(tc.pods...)
			seen.Admission = &admitting{answer: view.Answer{Most: map[string]int32{"worker": 2}}}
			diff(t, "creations", tc.want, summarize(tc.job.DecideAt(tc.at, seen)).Creates)
		})
	}
}

// The admission is released when the job needs no more pods. The end of the job is reported to the admission once no
// pod can run anymore.
func TestRestOfAJobThatNeedsNoMorePods(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0", running), pod("job-worker-1", running)
	succeeded := pod("job-worker-0", exited(0))
	type rest struct {
		Pods int
		End  string
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want *rest
	}{
		"a job that runs releases nothing": {job: ran(), pods: []*corev1.Pod{worker0, worker1}},
		"a job that pauses has pods and no end": {
			job: ran().Paused(true), pods: []*corev1.Pod{worker0, worker1}, want: &rest{Pods: 2},
		},
		"a job that has paused has no pods and no end": {job: wasPaused(), want: &rest{}},
		"a job whose end is decided has no end yet while a pod runs": {
			job: ran().GivePeers(time.Minute), pods: []*corev1.Pod{succeeded, worker1}, want: &rest{Pods: 2},
		},
		"a job whose end is decided has no end yet while a pod that has ended is being deleted": {
			job: ran(), pods: []*corev1.Pod{succeeded, pod("job-worker-1", exited(143), deleting)}, want: &rest{Pods: 2},
		},
		"a job that has finished has no end yet while a pod that it keeps runs": {
			job: ran().CleanUp(batchv1beta1.CleanUpPolicyNone), pods: []*corev1.Pod{succeeded, worker1}, want: &rest{Pods: 2},
		},
		"a job that has finished has an end when the pods that it keeps have ended": {
			job: ran().CleanUp(batchv1beta1.CleanUpPolicyNone), pods: []*corev1.Pod{succeeded, pod("job-worker-1", exited(0))},
			want: &rest{Pods: 2, End: batchv1beta1.ConditionSuccessCriteriaMet},
		},
		"a job that has finished has an end": {
			job: ran(), pods: []*corev1.Pod{succeeded}, want: &rest{Pods: 1, End: batchv1beta1.ConditionSuccessCriteriaMet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &admitting{}
			seen := seeing(tc.pods...)
			seen.Admission = a
			tc.job.DecideAt(now, seen)
			var got *rest
			if a.rest != nil {
				got = &rest{Pods: a.rest.Pods, End: ptr.Deref(a.rest.End, metav1.Condition{}).Type}
			}
			diff(t, "rest", tc.want, got)
		})
	}
}
