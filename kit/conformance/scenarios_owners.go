package conformance

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// ownerScenarios are lives of jobs while somebody else owns an object that has a name the job needs. A law checks that
// the controller never changes it. The Secret of a job has the UID of the job in its name: no other object needs it.
var ownerScenarios = []scenario{
	{
		name:   "a pod of somebody else is in the way for a while",
		before: []step{taken(model.Pods)},
		shape:  two(onFailure, scopeJob),
		late:   time.Minute, // which is how far apart the tries may be
		steps: []step{
			passes(30 * time.Second), saysWhoseItIs, freed(model.Pods), passes(2 * time.Minute), hasPod(1), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the deadline ends a job that somebody else's pod is in the way of",
		before: []step{taken(model.Pods)},
		shape:  two(onFailure, scopeJob, deadline(100)),
		steps:  []step{passes(105 * time.Second), stands(batchv1beta1.JobPhaseFailed)},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "somebody else takes the name of a worker's pod that is gone, and the job waits for it",
		shape: two(onFailure, scopeReplica, limit(0)),
		late:  time.Minute,
		steps: []step{
			run, marks(0), together(vanishes(1), taken(model.Pods)), passes(20 * time.Second), saysWhoseItIs, freed(model.Pods),
			passes(time.Minute), run, keepsMarked, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "a Service of somebody else is in the way for good, and no pod is created",
		before: []step{taken(model.Services)},
		shape:  two(onFailure, scopeJob),
		steps:  []step{passes(5 * time.Minute), saysWhoseItIs, hasNoPods},
		want:   result{Phase: "Pending", Reason: "NameConflict"},
	},
	{
		name:   "a Service of somebody else is in the way for a while",
		before: []step{taken(model.Services)},
		shape:  two(onFailure, scopeJob),
		late:   time.Minute,
		steps: []step{
			passes(30 * time.Second), saysWhoseItIs, freed(model.Services), passes(2 * time.Minute), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a NetworkPolicy of somebody else is in the way for a while, and no pod is created until it goes",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(lettingIn("monitoring")), taken(model.NetworkPolicies)},
		late:   time.Minute,
		steps: []step{
			passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), saysWhoseItIs, hasNoPods,
			freed(model.NetworkPolicies), passes(2 * time.Minute), letsIn("monitoring"), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a PodGroup of somebody else is in the way for a while",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{taken(model.PodGroups)},
		steps: []step{
			passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), saysWhoseItIs, freed(model.PodGroups),
			passes(2 * time.Minute), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the user deletes a job whose PodGroup belongs to somebody else",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{taken(model.PodGroups)},
		steps:  []step{passes(2 * time.Minute), jobDeleted, freed(model.PodGroups)},
	},
	{
		name:   "a TensorBoard of somebody else is in the way for good, and the job trains without",
		shape:  twoWithTensorBoard(),
		before: []step{taken(model.TensorBoards)},
		steps:  []step{run, exits(1, 1), run, exits(1, 0), exits(0, 0), tensorBoardSaysWhoseItIs},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: " (Create NameConflict)",
		},
	},
	{
		name:   "a TensorBoard of somebody else is in the way for a while",
		shape:  twoWithTensorBoard(),
		before: []step{taken(model.TensorBoards)},
		steps: []step{
			run, passes(2 * time.Minute), tensorBoardSaysWhoseItIs, freed(model.TensorBoards), passes(2 * time.Minute),
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:1 (Create Pending)",
		},
	},
}

// taken lets somebody else have an object by a name that the job needs: that of its second pod, or of the job itself.
func taken(of model.Resources) step {
	return func(w *world) {
		name := model.JobKey.Name
		if of == model.Pods {
			name = w.podName(1)
		}
		w.create(model.Foreign(of, name))
	}
}

// freed lets somebody else delete what has a name of the job.
func freed(of model.Resources) step {
	return func(w *world) {
		w.t.Helper()
		foreign := w.cluster.Live().Foreign(of)
		if len(foreign) == 0 {
			w.t.Fatalf("what belongs to %s is gone already: %s", model.SomebodyElse, w.describe())
		}
		w.remove(foreign[0])
	}
}

// saysWhoseItIs checks that the job reports who owns what is in its way.
func saysWhoseItIs(w *world) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.status().Conditions, batchv1beta1.ConditionInitialized)
	if c == nil || c.Reason != batchv1beta1.ReasonNameConflict || !strings.Contains(c.Message, model.SomebodyElse) {
		w.t.Errorf("Initialized is %+v, want that the name belongs to %s", c, model.SomebodyElse)
	}
}

// tensorBoardSaysWhoseItIs checks that the job reports who owns the TensorBoard of its name.
func tensorBoardSaysWhoseItIs(w *world) {
	w.t.Helper()
	status := model.TensorBoardStatus(w.job())
	if status == nil || !strings.Contains(status.Note, model.SomebodyElse) {
		w.t.Errorf("the TensorBoard is %+v, want that the name belongs to %s", status, model.SomebodyElse)
	}
}
