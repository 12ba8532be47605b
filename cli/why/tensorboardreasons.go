package why

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// tensorBoard has the reasons of status.tensorboard and of the condition Ready of a TensorBoard.
var tensorBoard = map[string]entry{
	tensorboardv1beta1.ReasonServing: {
		cause: "Its TensorBoard is ready.", next: []step{openBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonSuspended: {
		cause: "Its TensorBoard is suspended.", do: "Set spec.suspend to false to start it again.",
		next: []step{startBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonCulled: {
		cause: "Its TensorBoard was suspended because nobody had used it for a long time.",
		do:    "Set spec.suspend to false to start it again.",
		next:  []step{startBoard}, see: seeBoard, needsHelp: true,
	},
	tensorboardv1beta1.ReasonQueued: {
		cause: "Its TensorBoard waits for its queue: {message}.", next: []step{describeBoard, listQueues}, see: seeQueue,
	},
	tensorboardv1beta1.ReasonClaimNotReady: {
		cause: "Its TensorBoard waits for a volume: {message}.",
		do:    "Create the PersistentVolumeClaim, or wait until it is bound.",
		next:  []step{{purpose: "List the claims of the namespace", line: "kubectl get persistentvolumeclaims"}},
		see:   seeBoard, needsHelp: true,
	},
	tensorboardv1beta1.ReasonClaimExclusive: {
		cause: "Its TensorBoard cannot share the volume with the training: {message}.",
		do:    "Use a volume with another access mode than ReadWriteOncePod, or S3.",
		next:  []step{{purpose: "List the claims of the namespace", line: "kubectl get persistentvolumeclaims"}},
		see:   seeBoard, needsHelp: true,
	},
	tensorboardv1beta1.ReasonCrashing: {
		cause: "Its TensorBoard crashes repeatedly: {message}.", next: []step{describeBoard}, see: seeBoard, needsHelp: true,
	},
	tensorboardv1beta1.ReasonGivingWay: {
		cause: "Its TensorBoard moves to another node, because another pod needs the volume there.",
		do:    "Wait until it has started again.", next: []step{describeBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonStopping: {
		cause: "The former pod of its TensorBoard is ending.", do: "Wait until it is gone.",
		next: []step{describeBoard}, see: seeBoard,
	},
	batchv1beta1.ReasonNotInstalled: {
		cause: "Its TensorBoard does not exist, because TensorBoards are not installed in the cluster. The job trains " +
			"without it.",
		do: "An administrator can install the tensorboard-controller.",
		next: []step{{
			purpose: "See which kinds are installed", line: "kubectl api-resources --categories=training",
			ofCluster: true,
		}},
		see: seeBoard, needsHelp: true,
	},
	batchv1beta1.ReasonReadFailed:   boardNotPermitted("read"),
	batchv1beta1.ReasonUpdateFailed: boardNotPermitted("change"),
	batchv1beta1.ReasonDeleteFailed: boardNotPermitted("delete"),
	batchv1beta1.ReasonDeleted: {
		cause: "Its TensorBoard was deleted.", do: "The controller creates it again if the job needs it.",
		next: []step{describeJob}, see: seeBoard,
	},
	batchv1beta1.ReasonCreating:        boardWaits("is being created"),
	batchv1beta1.ReasonPending:         boardWaits("is starting"),
	batchv1beta1.ReasonRestarting:      boardWaits("is being restarted"),
	batchv1beta1.ReasonUnschedulable:   boardNeedsHelp("fits on no node"),
	batchv1beta1.ReasonImagePull:       boardNeedsHelp("cannot start, because its image cannot be pulled"),
	batchv1beta1.ReasonContainerConfig: boardNeedsHelp("cannot start, because a container cannot be created"),
	batchv1beta1.ReasonNameConflict:    boardNeedsHelp("cannot start, because another object has its name"),
	batchv1beta1.ReasonCreateFailed:    boardNeedsHelp("cannot start, because the API server rejects it"),

	schedulerv1beta1.ReasonQueueNotFound:        boardNeedsHelp("waits for a queue that does not exist"),
	schedulerv1beta1.ReasonQueueClosed:          boardNeedsHelp("waits for a queue that is closed"),
	schedulerv1beta1.ReasonNamespaceNotSelected: boardNeedsHelp("waits for a queue that is not for its namespace"),
	schedulerv1beta1.ReasonQuotaExceeded:        boardNeedsHelp("waits for quota of its queue"),
	schedulerv1beta1.ReasonEngineNotReady:       boardNeedsHelp("waits for the scheduler of the cluster"),
	schedulerv1beta1.ReasonEarlierGroup:         boardWaits("waits until its earlier pod has ended"),
	schedulerv1beta1.ReasonTooFewPods:           boardWaits("waits for its pod"),
	schedulerv1beta1.ReasonScheduling:           boardWaits("waits for the scheduler of the cluster"),

	schedulerv1beta1.ReasonPriorityClassMismatch: boardNeedsHelp("cannot start with the PriorityClass of its pod"),
}

// boardWaits returns the entry for a TensorBoard that does not run yet.
func boardWaits(how string) entry {
	return entry{
		cause: "Its TensorBoard " + how + ": {message}.", do: "The training does not wait for it.",
		next: []step{describeBoard}, see: seeBoard,
	}
}

// boardNeedsHelp returns the entry for a TensorBoard that does not run before somebody acts.
func boardNeedsHelp(how string) entry {
	e := boardWaits(how)
	e.needsHelp = true
	return e
}

// boardNotPermitted returns the entry for a TensorBoard if the job controller has no permission to read, change or
// delete the TensorBoard.
func boardNotPermitted(verb string) entry {
	return entry{
		cause: "The controller cannot " + verb + " the TensorBoard of the job: {message}.",
		do:    "An administrator must give the controller the ClusterRole that was shipped with it. The training goes on.",
		next:  []step{describeJob}, see: seeBoard, needsHelp: true,
	}
}

// tensorBoardUse has the reasons of the conditions Idle and SourcesAvailable of a TensorBoard.
var tensorBoardUse = map[string]entry{
	tensorboardv1beta1.ReasonRecentRequest: {
		cause: "Its TensorBoard is in use.", next: []step{openBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonNoRequest: {
		cause: "Nobody uses its TensorBoard: {message}.", next: []step{openBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonNotRunning: {
		cause: "Its TensorBoard does not run, so it is not known whether it is used and whether it can read its logs.",
		next:  []step{describeBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonProbeFailed: {
		cause: "Its TensorBoard runs, but does not respond: {message}.",
		next:  []step{describeBoard}, see: seeBoard, needsHelp: true,
	},
	tensorboardv1beta1.ReasonAllAvailable: {
		cause: "Its TensorBoard can read all its logs.", next: []step{openBoard}, see: seeBoard,
	},
	tensorboardv1beta1.ReasonFetchFailed: {
		cause: "Its TensorBoard cannot read logs from a source: {message}.",
		do:    "Check the address and the Secret of the source.",
		next:  []step{describeBoard}, see: seeBoard, needsHelp: true,
	},
}
