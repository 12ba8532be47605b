package conformance

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// dependentScenarios are scenarios of jobs that have a TensorBoard or a PodGroup.
var dependentScenarios = []scenario{
	{
		name:  "the TensorBoard of a job outlives the run",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, exits(1, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:1 (Create Serving)",
		},
	},
	{
		name:  "a deleted TensorBoard is recreated unless the job has finished",
		shape: twoWithTensorBoard(),
		steps: []step{
			run, together(tensorBoardDeleted, exits(1, 1)), run, passes(time.Minute), exits(1, 0), exits(0, 0),
			tensorBoardDeleted,
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "Create Deleted",
		},
	},
	{
		name:  "the TensorBoard is deleted with its job",
		shape: twoWithTensorBoard(),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "the user changes the TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, paused, wantsTensorBoard("tb:2"), resumed, run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:2 (Update Serving)",
		},
	},
	{
		name:  "the user removes the TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, paused, wantsNoTensorBoard, resumed, run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user changes the TensorBoard twice before the controller reconciles",
		shape: pausing(twoWithTensorBoard()),
		steps: []step{
			together(wantsNoTensorBoard, wantsTensorBoard("tb:2")), wantsNoTensorBoard,
			together(wantsTensorBoard("tb:3"), resumed), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:3 (Create Pending)",
		},
	},
	{
		name:     "a gang restarts as a whole and its PodGroup is deleted when it succeeds",
		shape:    inQueue(two(onFailure, scopeJob)),
		peersEnd: true,
		steps:    []step{hasGroup(2), run, exits(1, 1), hasGroup(2), run, exits(0, 0), hasGroup(0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "the PodGroup is deleted when a gang fails",
		shape: inQueue(two(never, scopeJob)),
		steps: []step{run, exits(1, 1), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "PermanentFailure", Pods: []string{"1 Failed"}},
	},
	{
		name:  "a gang is paused and resumed",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{
			run, paused, hasGroup(0), edited(func(s *Shape) { s.Replicas = 3 }), resumed, hasGroup(3), run, exits(1, 0),
			exits(2, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a gang is paused and resumed before the controller reconciles",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{
			run, together(paused, resumed), hasGroup(2), exits(1, 1), together(paused, resumed), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "a job that waits for its queue is paused and resumed",
		shape:  inQueue(two(onFailure, scopeJob)),
		before: []step{closes},
		steps: []step{
			stands(batchv1beta1.JobPhasePending), hasGroup(2), paused, hasGroup(0), resumed, hasGroup(2), passes(time.Minute),
			opens, run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "a job that waits for its queue fails at its deadline",
		shape:  inQueue(two(onFailure, scopeJob, deadline(60))),
		before: []step{closes},
		steps:  []step{passes(2 * time.Minute), opens},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name: "a replacement in a gang does not wait for peers that have ended",
		shape: inQueue(Shape{
			Replicas: 4, RestartPolicy: onFailure,
			RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeReplica, BackoffLimit: new(int32(1))},
		}),
		steps: []step{
			run, exits(3, 0), hasGroup(4), exits(1, 1), hasGroup(3), run, exits(2, 1), hasGroup(3), deleted(1), hasGroup(2),
			passes(15 * time.Second), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 Deleted 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Failed", "3 Succeeded"},
		},
	},
	{
		name:  "the PodGroup of a gang is recreated when a user deletes it",
		shape: inQueue(two(onFailure, scopeReplica)),
		steps: []step{
			run, groupDeleted, hasGroup(2), together(groupDeleted, exits(1, 1)), run, hasGroup(2), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a gang fails when it exceeds the maximum duration of its queue",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, groupExpires, hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang fails at the maximum duration although its pods are already being deleted",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, deleted(0), deleted(1)), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang succeeds if its leader has succeeded when the maximum duration is exceeded",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, exits(0, 0)), hasGroup(0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a gang fails if it is paused when the maximum duration is exceeded",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, paused), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang gets a new PodGroup if a user deletes its PodGroup just as it expires",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, groupDeleted), hasGroup(2), exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the PodGroup is deleted with its job",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "an elastic gang scales without a change to its PodGroup",
		shape: inQueue(elastic(2, 3, scopeReplica)),
		steps: []step{
			hasGroup(2), runs(0, 1), stands(batchv1beta1.JobPhaseRunning), scaled(4), hasGroup(2), run, scaled(2), hasGroup(2),
			exits(1, 1), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
}

// wantsTensorBoard returns a step in which the user adds or changes the TensorBoard of the job. The API server allows
// this only while the job is paused.
func wantsTensorBoard(image string) step {
	return edited(func(s *Shape) { s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: image} })
}

// wantsNoTensorBoard is a step in which the user removes the TensorBoard from the spec.
func wantsNoTensorBoard(w *world) { edited(func(s *Shape) { s.TensorBoard = nil })(w) }

// tensorBoardServes is a step in which the tensorboard-controller reports that the TensorBoard is ready.
func tensorBoardServes(w *world) {
	w.t.Helper()
	serving := w.tensorBoard().DeepCopy()
	serving.Status = tensorboardv1beta1.TensorBoardStatus{
		Phase: tensorboardv1beta1.TensorBoardRunning,
		Conditions: []tensorboardv1beta1.TensorBoardCondition{
			{Type: tensorboardv1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: tensorboardv1beta1.ReasonServing},
		},
	}
	w.Cluster.Put(serving)
}

// tensorBoardDeleted is a step in which a user deletes the TensorBoard.
func tensorBoardDeleted(w *world) {
	w.t.Helper()
	w.remove(w.tensorBoard())
}

// tensorBoard returns the TensorBoard. The test fails if there is none.
func (w *world) tensorBoard() *tensorboardv1beta1.TensorBoard {
	w.t.Helper()
	found := model.ListOf[*tensorboardv1beta1.TensorBoard](w.Cluster.Live())
	if len(found) == 0 {
		w.t.Fatalf("there is no TensorBoard: %s", w.describe())
	}
	return found[0]
}

// closes is a step that closes the queue.
func closes(w *world) { w.closed = true }

// opens is a step that opens the queue. Then the PodGroup or Workload that waits in the queue is admitted.
func opens(w *world) {
	w.closed = false
	w.Cluster.Consider(w.closed)
}

// groupExpires is a step in which the PodGroup exceeds the maximum duration of its queue.
func groupExpires(w *world) {
	w.t.Helper()
	if !w.Cluster.ExpireGroup() {
		w.t.Fatalf("there is no PodGroup: %s", w.describe())
	}
}

// hasGroup returns a step that checks the number of pods that the job's PodGroup needs. Zero means that there must be
// no PodGroup.
func hasGroup(minMember int32) step {
	return func(w *world) {
		w.t.Helper()
		group := w.Cluster.Live().PodGroup()
		if got := group != nil; got != (minMember > 0) || got && group.Spec.MinMember != minMember {
			w.t.Errorf("the PodGroup is %+v, want minMember %d (0 means no PodGroup): %s", group, minMember, w.describe())
		}
	}
}

// groupDeleted is a step in which a user deletes the PodGroup.
func groupDeleted(w *world) {
	w.t.Helper()
	w.remove(w.Cluster.Live().PodGroup())
}
