package conformance

import (
	"time"

	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// inPlaceScenarios are scenarios of jobs whose leader counts restarts in place.
var inPlaceScenarios = []scenario{
	{
		name:  "restarts in place are counted over all attempts",
		shape: counting(two(onFailure, scopeJob)),
		steps: []step{
			run, startsInPlace, startsInPlace, passes(time.Minute), hasInPlace(2), exits(1, 3), run, startsInPlace,
			passes(time.Minute), hasInPlace(3), exits(1, 0), exits(0, 0), hasInPlace(3),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Error 3 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "restarts in place are counted before the pods are replaced",
		shape: counting(two(onFailure, scopeJob)),
		steps: []step{
			run, startsInPlace, hasInPlace(1), together(startsInPlace, exits(1, 3)), run, passes(time.Minute), hasInPlace(2),
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Error 3 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "restarts in place are counted before a job pauses",
		shape: counting(two(onFailure, scopeJob)),
		steps: []step{
			run, startsInPlace, together(startsInPlace, paused), hasInPlace(2), resumed, run, startsInPlace,
			passes(time.Minute), hasInPlace(3), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}

// startsInPlace is a step in which the processes start again in place. The controller reads this soon.
func startsInPlace(w *world) {
	w.t.Helper()
	happensTo(0, model.CountsRestart)(w)
	w.Dirty = true // see progress.Poller.Changed
}

// hasInPlace returns a step that checks the number of restarts in place in the status.
func hasInPlace(want int32) step {
	return func(w *world) {
		w.t.Helper()
		got := ptr.Deref(w.status().RestartsInPlace, batchv1beta1.RestartsInPlace{}).Count
		if got != want {
			w.t.Errorf("the status has %d restarts in place, want %d: %s", got, want, w.describe())
		}
	}
}

// countRestart makes the processes start again in place, if the leader runs and can be read.
func (w *walk) countRestart(*rapid.T) {
	for _, pod := range w.pods() {
		training := w.Cluster.Trainings().Training(pod)
		if pod.Name == w.podName(0) && training != nil && training.Unreadable.IsZero() && !policy.Ended(pod) {
			startsInPlace(w.world)
			w.inPlace++
		}
	}
}
