package plan_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// A job finishes when none of its pods can still run. Until then, the status only records how the job will end.
func TestJobFinishesWhenNoneOfItsPodsRuns(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	started := func() *jobBuilder { return job(role("worker", 2)).BackoffLimit(0).Saw(time.Hour, both...) }
	const ago = 30 * time.Second
	succeeded := started().Saw(ago, pod("job-worker-0", exitedAgo(0, ago)), both[1])
	failed := started().Saw(ago, both[0], pod("job-worker-1", exitedAgo(1, ago)))
	leader := pod("job-worker-0", exitedAgo(0, ago))
	peer := func(options ...podOption) *corev1.Pod { return pod("job-worker-1", options...) }
	overdue := func(p *corev1.Pod) {
		deleting(p)
		p.DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Second)))
	}
	for name, tc := range map[string]struct {
		job       *jobBuilder
		pods      []*corev1.Pod
		wantPhase batchv1beta1.JobPhase
		wantReady string
		// wantRequeueIn is the time until a waiting job is requeued.
		wantRequeueIn time.Duration
	}{
		"a job that succeeded waits for a running peer": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(running)},
			// After these 30 seconds, the peer is overdue.
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 30 * time.Second,
		},
		"a job that succeeded waits for a peer whose sidecar runs": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(0), sidecarRunning)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 30 * time.Second,
		},
		"a job that succeeded waits for a peer whose sidecar init container runs": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(0), initSidecarRunning)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 30 * time.Second,
		},
		"a job that succeeded waits for a pod that is being deleted": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(running, deleting)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 90 * time.Second,
		},
		"a job that succeeded waits for an ended pod that is being deleted": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(143), deleting)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 30 * time.Second,
		},
		"a job that succeeded waits for a pod of no replica": {
			job: succeeded, pods: []*corev1.Pod{leader, pod("job-worker-7", running)},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "2/2", wantRequeueIn: 30 * time.Second,
		},
		"a job does not wait for an ended pod that exists past its grace period": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(143), overdue)},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds when its pods have ended": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(0))},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds when the pod of a peer is gone": {
			job: succeeded, pods: []*corev1.Pod{leader},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job succeeds although a peer fails meanwhile": {
			job: succeeded, pods: []*corev1.Pod{leader, peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseSucceeded, wantReady: "2/2",
		},
		"a job that failed waits for a running peer": {
			job: failed, pods: []*corev1.Pod{pod("job-worker-0", running, deleting), peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseRunning, wantReady: "1/2", wantRequeueIn: 90 * time.Second,
		},
		"a job fails when its pods have ended": {
			job: failed, pods: []*corev1.Pod{peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseFailed, wantReady: "0/2",
		},
		"a job fails if the condition SuccessCriteriaMet is False": {
			job: withoutSuccess(failed), pods: []*corev1.Pod{peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseFailed, wantReady: "0/2",
		},
		"a job fails although its leader succeeds meanwhile": {
			job: failed, pods: []*corev1.Pod{leader, peer(exited(1))},
			wantPhase: batchv1beta1.JobPhaseFailed, wantReady: "1/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "phase", tc.wantPhase, d.Status.Phase)
			diff(t, "READY", tc.wantReady, d.Status.Ready)
			if d.Status.Finished() {
				diff(t, "completionTime", new(metav1.NewTime(now)), d.Status.CompletionTime)
				diff(t, "number of events", 1, len(d.Events))
				return
			}
			diff(t, "status of a waiting job", tc.job.Status, d.Status)
			diff(t, "events of a waiting job", []report.Event(nil), d.Events)
			diff(t, "time until a waiting job is requeued", tc.wantRequeueIn, summarize(d).RequeueIn)
		})
	}
}

// withoutSuccess returns a copy of a job. In the copy, the condition SuccessCriteriaMet is False.
func withoutSuccess(j *jobBuilder) *jobBuilder {
	other := *j
	other.Status.Conditions = append(slices.Clone(j.Status.Conditions), metav1.Condition{
		Type: batchv1beta1.ConditionSuccessCriteriaMet, Status: metav1.ConditionFalse, Reason: "Undecided",
	})
	return &other
}

// The final event of a job has the facts of the failure that ended the job, so that the log shows these facts.
func TestFinalEventHasTheFactsOfTheFailure(t *testing.T) {
	t.Parallel()
	worker0 := pod("job-worker-0", running)
	ofNever := func() *jobBuilder {
		return job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Saw(time.Minute, worker0)
	}
	failedBefore := func() *jobBuilder { return ran().Saw(time.Minute, worker0, pod("job-worker-1", exited(1))) }
	unrecorded := ran().BackoffLimit(0).Saw(0, worker0, pod("job-worker-1", exited(1)))
	unrecorded.Status.Failures = nil
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want []any
	}{
		"the event has the facts of a failure that is not restarted": {
			job: ofNever(), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(2))},
			want: []any{"replica", "job-worker-1", "cause", "Error", "counted", true, "exitCode", int32(2)},
		},
		"the event has the facts of a failure beyond backoffLimit": {
			job: ran().BackoffLimit(0), pods: []*corev1.Pod{worker0, pod("job-worker-1", exited(2))},
			want: []any{"replica", "job-worker-1", "cause", "Error", "counted", true, "exitCode", int32(2)},
		},
		"the event has the facts of an ignored failure without an exit code": {
			job: ofNever(), pods: []*corev1.Pod{worker0, pod("job-worker-1", running, disrupted, deleting)},
			want: []any{"replica", "job-worker-1", "cause", batchv1beta1.ReasonPreempted, "counted", false},
		},
		"the event has no facts if the status does not list the failure": {job: unrecorded},
		"the event of a deadline has no facts of an earlier failure": {
			job: failedBefore().Deadline(1), pods: []*corev1.Pod{pod("job-worker-0", running, again(1))},
		},
		"the event of a success has no facts of an earlier failure": {
			job: failedBefore(), pods: []*corev1.Pod{pod("job-worker-0", exited(0), again(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.CleanUp(batchv1beta1.CleanUpPolicyNone).Sees(tc.pods...)
			var got [][]any
			for _, event := range d.Events {
				got = append(got, event.Facts)
			}
			diff(t, "facts of the events", [][]any{tc.want}, got)
		})
	}
}

// initSidecarRunning adds a running sidecar to the init containers. The kubelet stops it after the other containers.
func initSidecarRunning(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
}

// Once the end of a job is decided, nothing changes how the job ends, and no object is created.
func TestNothingChangesADecidedEnd(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	started := func() *jobBuilder { return job(role("worker", 2)).BackoffLimit(1).Saw(time.Hour, both...) }
	succeeded := func() *jobBuilder {
		return started().GivePeers(time.Hour).Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), both[1])
	}
	failed := func() *jobBuilder {
		return started().Deadline(3600-50).Saw(50*time.Second, both...)
	}
	elastic := job(role("worker", 2)).Elastic(1, 2).GivePeers(time.Hour).Saw(time.Hour, both...).
		Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), both[1])
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want string
	}{
		"a success stays if the user pauses the job": {
			job: succeeded().Paused(true), pods: both, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the deadline passes": {
			job: succeeded().Deadline(1), pods: both, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the pod of the leader is gone": {
			job: succeeded(), pods: both[1:], want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if a peer fails": {
			job:  succeeded(),
			pods: []*corev1.Pod{pod("job-worker-1", exited(1), sidecarRunning)}, want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if a peer becomes unreachable": {
			job: succeeded(), pods: []*corev1.Pod{pod("job-worker-1", running, unreachable)},
			want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a success stays if the user scales the job": {
			job: elastic.Elastic(1, 4), pods: both[1:], want: batchv1beta1.ReasonLeaderSucceeded,
		},
		"a failure stays if the user removes the deadline": {
			job:  withoutDeadline(failed()),
			pods: []*corev1.Pod{pod("job-worker-0", running, deleting)}, want: batchv1beta1.ReasonDeadlineExceeded,
		},
		"a failure stays if the leader succeeds meanwhile": {
			job:  failed(),
			pods: []*corev1.Pod{pod("job-worker-0", exited(0)), both[1]}, want: batchv1beta1.ReasonDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pods...)
			diff(t, "reason", tc.want, d.Status.Reason)
			diff(t, "status", tc.job.Status, d.Status)
			diff(t, "creations", []string(nil), names(podsToCreate(d)))
			diff(t, "deletions that are not part of the clean-up", []string(nil), names(d.Deletes))
		})
	}
}

func withoutDeadline(j *jobBuilder) *jobBuilder {
	j.Spec.RunPolicy.ActiveDeadlineSeconds = nil
	return j
}

// An edit of a job that ends changes no replica. The status only reports that the edit was observed.
func TestJobWhoseEndIsDecidedKeepsItsReplicas(t *testing.T) {
	t.Parallel()
	j := ran().Saw(0, pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	j.Generation++
	j.Spec.Roles[0].Replicas = 3
	waits := j.Sees(pod("job-worker-0", exited(0)), pod("job-worker-1", running))
	diff(t, "observedGeneration of a waiting job", j.Generation, waits.Status.ObservedGeneration)
	diff(t, "replicas", []string{"job-worker-0", "job-worker-1"},
		listed(j.Sees(pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0))).Status))
}

// finishedByAnEarlierVersion returns a job that succeeded a minute ago. An earlier version of the controller finished
// the job while the peer of its leader still ran.
func finishedByAnEarlierVersion() *jobBuilder {
	j := ran().GivePeers(90*time.Second).
		Saw(time.Minute, pod("job-worker-0", exitedAgo(0, time.Minute)), pod("job-worker-1", running))
	j.Status.Phase = batchv1beta1.JobPhaseSucceeded
	j.Status.CompletionTime = new(metav1.NewTime(now.Add(-time.Minute)))
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == batchv1beta1.ConditionSuccessCriteriaMet {
			c.Type = batchv1beta1.ConditionCompleted
		}
	}
	return j
}

func TestJobThatAnEarlierVersionFinished(t *testing.T) {
	t.Parallel()
	leader, peer := pod("job-worker-0", exitedAgo(0, time.Minute)), pod("job-worker-1", running)
	j := finishedByAnEarlierVersion()
	d := j.Sees(leader, peer)
	diff(t, "status", j.Status, d.Status)
	diff(t, "deletions before the end of the grace period", []string(nil), names(d.CleanUps))
	diff(t, "time until the requeue", 30*time.Second, summarize(d).RequeueIn)
	late := plan.Decide(j.Job, seeing(leader, peer), now.Add(30*time.Second))
	diff(t, "deletions after the grace period", []string{"job-worker-1"}, names(late.CleanUps))
}

// The end of a finished job does not change, whatever happens to its pods or its spec.
func TestFinishedJobIsFinal(t *testing.T) {
	t.Parallel()
	succeeded := func() *jobBuilder {
		return job(role("worker", 2)).Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Minute, pod("job-worker-0", exited(0)), pod("job-worker-1", exited(0)))
	}
	failed := func() *jobBuilder {
		return job(role("worker", 2)).BackoffLimit(1).
			Saw(time.Hour, pod("job-worker-0", running), pod("job-worker-1", running)).
			Saw(time.Hour, pod("job-worker-0", exitedAgo(1, time.Hour)), pod("job-worker-1", running)).
			Saw(time.Minute, pod("job-worker-0", exitedAgo(1, time.Minute), again(1)), pod("job-worker-1", exited(1), again(1)))
	}
	pausing := func(j *jobBuilder) *jobBuilder {
		j.Generation++
		return j.Paused(true)
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
	}{
		"the pods of a succeeded job are gone": {job: succeeded()},
		"the pods of a failed job are gone":    {job: failed()},
		"the backoffLimit of a failed job is raised": {
			job: failed().BackoffLimit(10), pods: []*corev1.Pod{pod("job-worker-0", exited(1), again(1))},
		},
		"the deadline of a succeeded job passes": {job: succeeded().Deadline(1)},
		"a succeeded job is paused":              {job: pausing(succeeded())},
		"a pod of a succeeded job fails while it is being deleted": {
			job: succeeded(), pods: []*corev1.Pod{pod("job-worker-1", exited(137), deleting)},
		},
		"a pod of a failed job starts":        {job: failed(), pods: []*corev1.Pod{pod("job-worker-0", running, again(2))}},
		"the leader of a failed job succeeds": {job: failed(), pods: []*corev1.Pod{pod("job-worker-0", exited(0), again(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, view.Observation{Pods: seeing(tc.pods...).Pods}, now)
			want := plan.WithoutReplicas(tc.job.Status)
			want.ObservedGeneration = tc.job.Generation // a change of the spec is observed
			diff(t, "status without replicas", want, plan.WithoutReplicas(d.Status))
			diff(t, "conditions", tc.job.Status.Conditions, d.Status.Conditions)
			diff(t, "creations", []string(nil), names(podsToCreate(d)))
			diff(t, "events", []report.Event(nil), d.Events)
			if d.CreateService {
				t.Error("CreateService of a finished job is true, want false")
			}
		})
	}
}
