package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// dependentScenarios are lives of jobs that have a TensorBoard or a PodGroup.
var dependentScenarios = []scenario{
	{
		name:  "a job has a TensorBoard, which outlives the run",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, exits(1, 1), run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:1 (Create Serving)",
		},
	},
	{
		name:  "somebody deletes the TensorBoard of a job, and again once the job has finished",
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
		name:  "a job is deleted with its TensorBoard",
		shape: twoWithTensorBoard(),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "the user wants another TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, tensorBoardServes, paused, wantsTensorBoard("tb:2"), resumed, run, exits(1, 0), exits(0, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"},
			TensorBoard: "tb:2 (Update Serving)",
		},
	},
	{
		name:  "the user does without TensorBoard while the job is paused",
		shape: twoWithTensorBoard(),
		steps: []step{run, paused, wantsNoTensorBoard, resumed, run, exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "the user changes their mind about TensorBoard before the controller sees it",
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
		name:     "a gang restarts as one, and its PodGroup goes as it succeeds",
		shape:    inQueue(two(onFailure, scopeJob)),
		peersEnd: true,
		steps:    []step{hasGroup(2), run, exits(1, 1), hasGroup(2), run, exits(0, 0), hasGroup(0), exits(1, 0)},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a gang fails, and its PodGroup goes",
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
		name:  "a gang is paused and resumed before the controller sees it",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{
			run, together(paused, resumed), hasGroup(2), exits(1, 1), together(paused, resumed), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:   "a job waits for its queue to open, and is paused meanwhile",
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
		name:   "a job waits for its queue until its deadline",
		shape:  inQueue(two(onFailure, scopeJob, deadline(60))),
		before: []step{closes},
		steps:  []step{passes(2 * time.Minute), opens},
		want:   result{Phase: "Failed", Reason: "DeadlineExceeded"},
	},
	{
		name: "a replacement in a gang does not wait for peers that are done",
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
		name:  "somebody deletes the PodGroup of a gang, which has another",
		shape: inQueue(two(onFailure, scopeReplica)),
		steps: []step{
			run, groupDeleted, hasGroup(2), together(groupDeleted, exits(1, 1)), run, hasGroup(2), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 1, Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a gang ends when its time on nodes is over",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, groupExpires, hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang ends when its time on nodes is over, after its pods were deleted for that",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, deleted(0), deleted(1)), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang whose leader has succeeded when its time is over has succeeded",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, exits(0, 0)), hasGroup(0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded"}},
	},
	{
		name:  "a gang that is paused as its time is over has failed",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, paused), hasGroup(0)},
		want:  result{Phase: "Failed", Reason: "MaxDurationExceeded"},
	},
	{
		name:  "a gang whose PodGroup somebody deletes as its time is over has another",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, together(groupExpires, groupDeleted), hasGroup(2), exits(1, 0), exits(0, 0)},
		want:  result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job is deleted with its PodGroup",
		shape: inQueue(two(onFailure, scopeJob)),
		steps: []step{run, jobDeleted},
	},
	{
		name:  "an elastic gang scales without a change of its PodGroup, and trains with what fits",
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
