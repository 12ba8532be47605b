package conformance

import (
	"slices"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// holdScenarios are scenarios with held leaders. In most of them, the leader ends or is deleted while no controller
// runs. For comparison, the leader is not held in the first scenario.
var holdScenarios = slices.Concat(
	[]scenario{{
		name:  "all replicas run again if the leader succeeds and is drained while no controller runs",
		shape: two(onFailure, scopeJob), holdsNot: true,
		steps: []step{
			run, whileAway(exits(0, 0), waits(drainDelay), deleted(0)), run, stands(batchv1beta1.JobPhaseRunning),
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	}},
	holding(
		scenario{
			name:  "a job succeeds if its held leader succeeds and is drained while no controller runs",
			shape: two(onFailure, scopeJob),
			steps: []step{run, whileAway(exits(1, 0), exits(0, 0), waits(drainDelay), deleted(0))},
			want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"1 Succeeded"}},
		},
		scenario{
			name:  "a job succeeds if its held leader succeeds and is deleted by force without a controller",
			shape: two(onFailure, scopeReplica),
			steps: []step{run, whileAway(exits(1, 0), exits(0, 0), waits(drainDelay), vanishes(0))},
			want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"1 Succeeded"}},
		},
		scenario{
			name:  "a failure counts if the held leader fails and is drained while no controller runs",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, whileAway(exits(0, 3), waits(drainDelay), deleted(0))},
			want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Failure: "0 Error 3 true"},
		},
		scenario{
			name:  "a job restarts if its held leader is drained during training, which does not count",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, whileAway(deleted(0)), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a held leader that is deleted by force before all replicas have run is recreated",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{runs(0), vanishes(0), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "the pod of a held leader on a lost node is deleted by force",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, losesNode(0), passes(3 * time.Minute), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a held leader is paused while no controller runs",
			shape: two(onFailure, scopeJob),
			steps: []step{
				run, whileAway(paused), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a held leader is deleted while no controller runs",
			shape: two(onFailure, scopeJob),
			steps: []step{run, whileAway(jobDeleted)},
		},
		scenario{
			name:  "a job with a held leader is deleted and recreated while no controller runs",
			shape: two(onFailure, scopeJob),
			late:  time.Minute, // the longest backoff between two attempts to create a pod
			steps: []step{
				run, whileAway(jobDeleted, created(two(onFailure, scopeJob))), passes(2 * time.Minute),
				run, exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a held leader expires",
			shape: two(onFailure, scopeJob, timeToLive(0)),
			steps: []step{run, whileAway(exits(0, 0), waits(drainDelay), deleted(0))},
		},
		scenario{
			name:  "a held leader whose pod loses the job-kind label gets a new pod",
			shape: two(onFailure, scopeJob, limit(0)),
			late:  time.Minute,
			steps: []step{
				run, unlabeled(0, batchv1beta1.LabelJobKind), passes(time.Minute),
				run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a held leader continues with a controller that holds no leaders",
			shape: two(onFailure, scopeJob, limit(1)),
			steps: []step{
				run, holdsNoMore, exits(1, 1), run, exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
				Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
	),
)

// drainDelay is the time between the end of a container and the deletion of its pod. It is so long that the
// controller does not take the deletion for the cause of the end.
const drainDelay = 3 * time.Second

// holding makes the scenarios run with a controller that holds the pods of leaders, and returns them. It also adds a
// last step, which checks that no pod is held.
func holding(scenarios ...scenario) []scenario {
	for i := range scenarios {
		scenarios[i].holds = true
		scenarios[i].steps = append(scenarios[i].steps, holdsNone)
	}
	return scenarios
}

// whileAway returns a step that runs other steps while no controller runs. The kubelets and the garbage collector act
// after each step.
func whileAway(steps ...step) step {
	return func(w *world) {
		w.t.Helper()
		for _, step := range steps {
			step(w)
			for w.confirmDeletion() || w.collectGarbage() {
			}
		}
		w.start(nil)
	}
}

// holdsNoMore is a step that restarts the controller as one that does not hold the pods of leaders.
func holdsNoMore(w *world) {
	w.options.HoldLeaders = false
	w.start(nil)
}

// holdsNone checks that no pod is held.
func holdsNone(w *world) {
	w.t.Helper()
	for _, pod := range w.pods() {
		if view.IsHeld(pod) {
			w.t.Errorf("pod %s still has the finalizer of a held leader: %s", pod.Name, w.describe())
		}
	}
}
