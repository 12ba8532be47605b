package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

const (
	restartsStalled = batchv1beta1.ProgressPolicyRestart
	notifiesOfStall = batchv1beta1.ProgressPolicyNotify
)

// stalls returns a policy that allows a training 60 s without progress, and 90 s before its first report.
func stalls(what batchv1beta1.ProgressPolicy) model.Policy { return model.Stalls(what, 60, 90) }

// progressScenarios are scenarios of jobs whose training reports its progress.
var progressScenarios = []scenario{
	{
		name:  "a training that hangs is restarted once, and completes",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(50 * time.Second), stands(batchv1beta1.JobPhaseRunning),
			passes(30 * time.Second), isStalled(true), run, passes(10 * time.Minute), isStalled(false), exits(1, 0),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training that hangs twice is restarted twice, and then the job fails",
		shape: reporting(two(onFailure, scopeJob, limit(2), stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(2 * time.Minute), run, passes(10 * time.Second), hangs,
			passes(2 * time.Minute), run, passes(10 * time.Second), hangs, passes(2 * time.Minute), isStalled(true),
		},
		want: result{
			Phase: "Failed", Reason: "BackoffLimitExceeded", Backoff: 2, Restarts: 4, Failure: "0 NoProgress 0 true",
		},
	},
	{
		name:  "a training that hangs is restarted, although its replicas never restart after a failure",
		shape: reporting(two(never, scopeReplica, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(2 * time.Minute), run, passes(time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training that hangs is only reported, until it makes progress again",
		shape: reporting(two(onFailure, scopeJob, limit(0), stalls(notifiesOfStall))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(10 * time.Minute), isStalled(true),
			stands(batchv1beta1.JobPhaseRunning), reports, passes(time.Minute), isStalled(false),
			shows(2), hangs, passes(2 * time.Minute),
			isStalled(true),
			exits(1, 0), exits(0, 0), isStalled(false),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a training whose stall is only reported fails, and restarts as any other",
		shape: reporting(two(onFailure, scopeJob, stalls(notifiesOfStall))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(2 * time.Minute), isStalled(true), exits(1, 3), run,
			passes(time.Minute), isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Error 3 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a stall is not reported while the cache lacks the failure of a replica",
		shape: reporting(two(onFailure, scopeJob, stalls(notifiesOfStall))),
		steps: []step{
			run, passes(10 * time.Second), hangs, together(unseen(exits(1, 3)), waits(2*time.Minute)), run,
			passes(time.Minute), isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Error 3 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training that announces its silence is not stalled until the silence ends",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), announces(10 * time.Minute), passes(9 * time.Minute), isStalled(false), reports,
			passes(time.Minute), announces(5 * time.Minute), passes(4 * time.Minute), isStalled(false),
			passes(2 * time.Minute), run, passes(time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training whose processes start again in their pod has as much time as at its start",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(50 * time.Second), startsAgain, passes(80 * time.Second), isStalled(false), startsAgain,
			passes(80 * time.Second), isStalled(false), passes(time.Minute), isStalled(true), run,
			passes(time.Minute), isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training that reports nothing after its start is restarted",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			hangsAtStart, passes(80 * time.Second), isStalled(false), passes(time.Minute), isStalled(true), run,
			passes(time.Minute), isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a training that reports its first step late is not stalled",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			hangsAtStart, passes(80 * time.Second), reports, shows(1), passes(10 * time.Minute), isStalled(false),
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a training that has reported 100 percent is not stalled",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), completes, passes(10 * time.Minute), isStalled(false), shows(2), exits(1, 0),
			exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a training that hangs is paused and resumed",
		shape: reporting(two(onFailure, scopeJob, limit(0), stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(50 * time.Second), paused, passes(time.Hour), isStalled(false),
			resumed, run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), paused), passes(time.Hour),
			isStalled(false), resumed, run, passes(5 * time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a pause ends a stall that was only reported",
		shape: reporting(two(onFailure, scopeJob, limit(0), stalls(notifiesOfStall))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(2 * time.Minute), isStalled(true), paused, isStalled(false), resumed,
			run, passes(10 * time.Minute), isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a stall does not count if Kueue evicts the job before it is seen",
		shape: inKueue(reporting(two(onFailure, scopeJob, limit(0), stalls(restartsStalled)))),
		steps: []step{
			run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), evicts), closes, passes(10 * time.Minute),
			isStalled(false), opens, run, passes(3 * time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			Workloads: []string{requeued},
		},
	},
	{
		name:  "a training that hangs is restarted without another admission by Kueue",
		shape: inKueue(reporting(two(onFailure, scopeJob, stalls(restartsStalled)))),
		steps: []step{
			run, passes(10 * time.Second), hangs, passes(2 * time.Minute), run, passes(10 * time.Second), exits(1, 0),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Workloads: []string{succeeded},
		},
	},
	{
		name:  "a failure that is seen with a stall counts, and the stall does not",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), exits(1, 3)), run, passes(time.Minute),
			isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Error 3 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a deletion that is seen with a stall restarts the replicas, and the stall does not count",
		shape: reporting(two(onFailure, scopeJob, limit(0), stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), deleted(1)), run, passes(time.Minute),
			isStalled(false), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Failure: "1 Deleted 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job succeeds although its training hangs until it ends",
		shape: reporting(two(onFailure, scopeJob, limit(0), stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), exits(1, 0), exits(0, 0)), isStalled(false),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a training whose sidecar cannot be read is not stalled until it can be read again",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{
			run, passes(10 * time.Second), hangs, unreadable, passes(10 * time.Minute), isStalled(false), readable,
			passes(time.Minute), run, passes(time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "0 NoProgress 0 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the status of a job that has ended shows the last report",
		shape: reporting(two(onFailure, scopeJob)),
		steps: []step{
			run, shows(1), passes(time.Minute), reports, passes(time.Minute), shows(2),
			together(reports, completes, exits(1, 0), exits(0, 0)), shows(4),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job whose training hangs is deleted",
		shape: reporting(two(onFailure, scopeJob, stalls(restartsStalled))),
		steps: []step{run, passes(10 * time.Second), hangs, together(waits(2*time.Minute), jobDeleted)},
	},
}

// training returns a step in which something happens to the training of the leader. The first report, and the first
// reading that fails, enqueue a reconcile. See progress.Poller.Changed.
func training(what model.Mishap) step {
	return func(w *world) {
		w.t.Helper()
		before := w.Cluster.Trainings().Training(w.pod(0))
		happensTo(0, what)(w)
		after := w.Cluster.Trainings().Training(w.pod(0))
		if before != nil && (before.Step == 0 && after.Step > 0 || !after.Unreadable.IsZero()) {
			w.Dirty = true
		}
	}
}

// Steps in which something happens to the training of the leader.
var (
	hangs       = training(model.Hangs)
	reports     = training(model.Reports)
	startsAgain = training(model.StartsAgain)
	completes   = training(model.Completes)
	unreadable  = training(model.IsUnreadable)
	readable    = training(model.IsReadable)
)

// announces returns a step in which the training of the leader announces that it will report no step for a while.
func announces(silence time.Duration) step { return training(model.Announces(silence)) }

// hangsAtStart is a step in which all pods start, but the training of the leader reports nothing.
func hangsAtStart(w *world) {
	happensTo(0, model.RunsAndHangs)(w)
	run(w)
}

// isStalled returns a step that checks whether the condition Stalled is True.
func isStalled(want bool) step {
	return func(w *world) {
		w.t.Helper()
		if status := w.status(); model.IsTrue(status, batchv1beta1.ConditionStalled) != want {
			w.t.Errorf("the condition Stalled is %t, want %t: %s", !want, want, w.describe())
		}
	}
}

// shows returns a step that checks the last training step that the status shows.
func shows(want int64) step {
	return func(w *world) {
		w.t.Helper()
		if shown := w.status().Progress; shown == nil || ptr.Deref(shown.Step, 0) != want {
			w.t.Errorf("the status shows %+v, want step %d: %s", shown, want, w.describe())
		}
	}
}

// reportingAtRandom returns the shape of a job whose training reports its progress, with a random policy for stalls.
// It returns the shape unchanged if the trainings of the kind do not report their progress.
func reportingAtRandom(t *rapid.T, k model.Kind, s Shape) Shape {
	policies := []batchv1beta1.ProgressPolicy{restartsStalled, restartsStalled, notifiesOfStall}
	reports := reporting(s)
	stalls(rapid.SampledFrom(policies).Draw(t, "policy for stalls"))(&reports.RunPolicy)
	if !k.Runs(reports) {
		return s
	}
	return reports
}

// trainingActions returns the events of the training of the leader and of its sidecar.
func (w *walk) trainingActions() map[string]func(*rapid.T) {
	happens := func(what step, may func(model.Training) bool) func(*rapid.T) {
		return func(*rapid.T) {
			for _, pod := range w.pods() {
				training := w.Cluster.Trainings().Training(pod)
				if pod.Name == w.podName(0) && training != nil && may(*training) {
					what(w.world)
				}
			}
		}
	}
	isReadable := func(t model.Training) bool { return t.Unreadable.IsZero() }
	makesProgress := func(t model.Training) bool { return isReadable(t) && t.Step > 0 && t.Stopped.IsZero() }
	return map[string]func(*rapid.T){
		"the training hangs":               happens(hangs, makesProgress),
		"the training hangs again":         happens(hangs, makesProgress),
		"the training reports a step":      happens(reports, func(t model.Training) bool { return isReadable(t) && !t.Done }),
		"the training announces a silence": happens(announces(5*time.Minute), makesProgress),
		"the training starts again": happens(startsAgain, func(t model.Training) bool {
			return isReadable(t) && t.Step > 0
		}),
		"the training is done":           happens(completes, makesProgress),
		"the training cannot be read":    happens(unreadable, isReadable),
		"the training can be read again": func(*rapid.T) { w.trainingsAreReadable() },
		"the training hangs at its start": func(*rapid.T) {
			for _, pod := range w.pods() {
				if pod.Name == w.podName(0) && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
					w.happenTo(pod, model.RunsAndHangs)
				}
			}
		},
		"a minute passes": func(*rapid.T) { w.Clock.SetTime(w.Clock.Now().Add(time.Minute)) },
	}
}

// trainingsAreReadable makes the sidecars of all trainings readable.
func (w *walk) trainingsAreReadable() {
	for _, pod := range w.pods() {
		w.happenTo(pod, model.IsReadable)
	}
}
