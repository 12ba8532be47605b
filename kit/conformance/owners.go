package conformance

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// ownerScenarios are scenarios in which an object with another owner has a name that the job needs. In all of them,
// model.CheckLaws checks that the controller never changes such an object. There is no scenario with a Secret,
// because the name of the job's Secret contains the UID of the job, so no other object has this name.
var ownerScenarios = []scenario{
	{
		name:   "a job starts once a pod with another owner no longer has its name",
		before: []step{taken(model.Pods)},
		shape:  two(onFailure, scopeJob),
		late:   time.Minute, // the longest backoff between two attempts to create a pod
		steps: []step{
			passes(30 * time.Second), reportsOwner, freed(model.Pods), passes(2 * time.Minute), hasPod(1), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the deadline ends a job while a pod with another owner has one of its names",
		before: []step{taken(model.Pods)},
		shape:  two(onFailure, scopeJob, deadline(100)),
		steps:  []step{passes(105 * time.Second), stands(batchv1beta1.JobPhaseFailed)},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name:  "a worker waits while a pod with another owner has its name",
		shape: two(onFailure, scopeReplica, limit(0)),
		late:  time.Minute,
		steps: []step{
			run, marks(0), together(vanishes(1), taken(model.Pods)), passes(20 * time.Second), reportsOwner, freed(model.Pods),
			passes(time.Minute), run, keepsMarked, stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "no pod is created while a Service with another owner has the name of the job",
		before: []step{taken(model.Services)},
		shape:  two(onFailure, scopeJob),
		steps:  []step{passes(5 * time.Minute), reportsOwner, hasNoPods},
		want:   result{Phase: "Pending", Reason: "NameConflict"},
	},
	{
		name:   "a job starts once a Service with another owner no longer has its name",
		before: []step{taken(model.Services)},
		shape:  two(onFailure, scopeJob),
		late:   time.Minute,
		steps: []step{
			passes(30 * time.Second), reportsOwner, freed(model.Services), passes(2 * time.Minute), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a job starts once a NetworkPolicy with another owner no longer has its name",
		shape:  two(onFailure, scopeJob),
		before: []step{startsWith(lettingIn("monitoring")), taken(model.NetworkPolicies)},
		late:   time.Minute,
		steps: []step{
			passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), reportsOwner, hasNoPods,
			freed(model.NetworkPolicies), passes(2 * time.Minute), letsIn("monitoring"), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a job starts once a PodGroup with another owner no longer has its name",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{taken(model.PodGroups)},
		steps: []step{
			passes(2 * time.Minute), stands(batchv1beta1.JobPhasePending), reportsOwner, freed(model.PodGroups),
			passes(2 * time.Minute), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "the user deletes a job while its PodGroup has another owner",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{taken(model.PodGroups)},
		steps:  []step{passes(2 * time.Minute), jobDeleted, freed(model.PodGroups)},
	},
	{
		name:   "a job trains without a TensorBoard while one with another owner has its name",
		shape:  twoWithTensorBoard(),
		before: []step{taken(model.TensorBoards)},
		steps:  []step{run, exits(1, 1), run, exits(1, 0), exits(0, 0), tensorBoardReportsOwner},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: " (Create NameConflict)",
		},
	},
	{
		name:   "a job gets a TensorBoard once one with another owner no longer has its name",
		shape:  twoWithTensorBoard(),
		before: []step{taken(model.TensorBoards)},
		steps: []step{
			run, passes(2 * time.Minute), tensorBoardReportsOwner, freed(model.TensorBoards), passes(2 * time.Minute),
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:1 (Create Pending)",
		},
	},
}

// taken returns a step that creates an object with another owner and a name that the job needs. A pod gets the name of
// the pod of index 1, and other objects get the name of the job.
func taken(of model.Resources) step {
	return func(w *world) {
		name := model.JobKey.Name
		if of == model.Pods {
			name = w.podName(1)
		}
		w.create(model.Foreign(of, name))
	}
}

// freed returns a step in which the other owner deletes its object, which has a name that the job needs.
func freed(of model.Resources) step {
	return func(w *world) {
		w.t.Helper()
		foreign := w.Cluster.Live().Foreign(of)
		if len(foreign) == 0 {
			w.t.Fatalf("the object of %s is already gone: %s", model.SomebodyElse, w.describe())
		}
		w.remove(foreign[0])
	}
}

// reportsOwner checks that the job reports the other owner of the object whose name the job needs.
func reportsOwner(w *world) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.status().Conditions, batchv1beta1.ConditionInitialized)
	if c == nil || c.Reason != batchv1beta1.ReasonNameConflict || !strings.Contains(c.Message, model.SomebodyElse) {
		w.t.Errorf("the condition Initialized is %+v, want the reason NameConflict and the owner %s", c, model.SomebodyElse)
	}
}

// tensorBoardReportsOwner checks that the job reports the other owner of the TensorBoard that has the name of the job.
func tensorBoardReportsOwner(w *world) {
	w.t.Helper()
	status := model.TensorBoardStatus(w.job())
	if status == nil || !strings.Contains(status.Note, model.SomebodyElse) {
		w.t.Errorf("the status of the TensorBoard is %+v, want a note with the owner %s", status, model.SomebodyElse)
	}
}

// namesAreFree deletes the pods with another owner whose names the job needs.
func (w *walk) namesAreFree() {
	for _, object := range w.Cluster.Live().Foreign(model.Pods) {
		w.remove(object)
	}
}
