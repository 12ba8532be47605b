package conformance

import (
	"slices"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

// holdScenarios are lives in which a leader ends or goes while no controller works, and in which pods are held.
var holdScenarios = slices.Concat(
	[]scenario{{
		name:  "a leader succeeds and its pod is drained while no controller works, so that all run again",
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
			name:  "a leader that is held succeeds and is drained while no controller works, which ends the job",
			shape: two(onFailure, scopeJob),
			steps: []step{run, whileAway(exits(1, 0), exits(0, 0), waits(drainDelay), deleted(0))},
			want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"1 Succeeded"}},
		},
		scenario{
			name:  "a leader that is held succeeds and is deleted by force while no controller works, which ends the job",
			shape: two(onFailure, scopeReplica),
			steps: []step{run, whileAway(exits(1, 0), exits(0, 0), waits(drainDelay), vanishes(0))},
			want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"1 Succeeded"}},
		},
		scenario{
			name:  "a leader that is held fails and is drained while no controller works, which counts",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, whileAway(exits(0, 3), waits(drainDelay), deleted(0))},
			want:  result{Phase: "Failed", Reason: "BackoffLimitExceeded", Failure: "0 Error 3 true"},
		},
		scenario{
			name:  "a leader that is held is drained while it trains, which restarts all and does not count",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, whileAway(deleted(0)), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a leader that is held is deleted by force before all have run, and is created again",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{runs(0), vanishes(0), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "the node of a leader that is held is lost, and the pod is deleted by force",
			shape: two(onFailure, scopeJob, limit(0)),
			steps: []step{run, losesNode(0), passes(3 * time.Minute), run, exits(1, 0), exits(0, 0)},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a leader that is held is paused while no controller works",
			shape: two(onFailure, scopeJob),
			steps: []step{
				run, whileAway(paused), stands(batchv1beta1.JobPhasePaused), resumed, run, exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a leader that is held is deleted while no controller works",
			shape: two(onFailure, scopeJob),
			steps: []step{run, whileAway(jobDeleted)},
		},
		scenario{
			name:  "a job with a leader that is held is replaced by another of its name while no controller works",
			shape: two(onFailure, scopeJob),
			late:  time.Minute, // which is how far apart the tries may be
			steps: []step{
				run, whileAway(jobDeleted, created(two(onFailure, scopeJob))), passes(2 * time.Minute),
				run, exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a leader that is held expires",
			shape: two(onFailure, scopeJob, timeToLive(0)),
			steps: []step{run, whileAway(exits(0, 0), waits(drainDelay), deleted(0))},
		},
		scenario{
			name:  "somebody takes the kind of job off the pod of a leader that is held, which is replaced",
			shape: two(onFailure, scopeJob, limit(0)),
			late:  time.Minute,
			steps: []step{
				run, unlabelled(0, batchv1beta1.LabelJobKind), passes(time.Minute),
				run, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
			},
			want: result{
				Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			},
		},
		scenario{
			name:  "a job with a leader that is held gets a controller that holds none",
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

// drainDelay is how much later than the end of a container its pod is deleted so that the end is believed.
const drainDelay = 3 * time.Second

// holding returns scenarios with a controller that holds the pods of leaders. At the end no pod is held.
func holding(scenarios ...scenario) []scenario {
	for i := range scenarios {
		scenarios[i].holds = true
		scenarios[i].steps = append(scenarios[i].steps, holdsNone)
	}
	return scenarios
}

// whileAway lets steps happen while no controller works. The kubelets and the garbage collector do after each of them.
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

// holdsNoMore lets a controller take over that holds no leaders.
func holdsNoMore(w *world) {
	w.options.HoldLeaders = false
	w.start(nil)
}

// holdsNone checks that no pod is held.
func holdsNone(w *world) {
	w.t.Helper()
	for _, pod := range w.pods() {
		if plan.IsHeld(pod) {
			w.t.Errorf("pod %s is still held: %s", pod.Name, w.describe())
		}
	}
}
