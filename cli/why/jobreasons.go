package why

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Pages and sections that kubectl train docs prints.
const (
	seeProblems    = "troubleshooting"
	seePending     = "troubleshooting#pending"
	seeQuotas      = "scheduling#resourcequotas"
	seeRunning     = "troubleshooting#running"
	seeStalled     = "troubleshooting#stalled"
	seePaused      = "troubleshooting#paused"
	seeResuming    = "troubleshooting#resuming"
	seeEnding      = "troubleshooting#ending"
	seeSucceeded   = "troubleshooting#succeeded"
	seeFailed      = "troubleshooting#failed"
	seeBoard       = "troubleshooting#a-tensorboard"
	seeQueue       = "troubleshooting#a-job-in-a-queue"
	seeControllers = "operate/troubleshooting#the-controllers"
	seeBadNodes    = "operate/bad-nodes#when-a-node-is-avoided"
	seeKueue       = "kueue#what-happens-to-a-job"
	seeMultiKueue  = "kueue#jobs-in-other-clusters"
	seeNoKueue     = "operate/kueue#without-kueue"
	seeEngines     = "scheduler"
	seeUpload      = "kubectl-train-details#if-the-command-is-interrupted-before-the-job-runs"
	seePorts       = "host-network#ports"
	seeProgress    = "progress#stalls"
	seeElastic     = "elastic"
	seeEvents      = "reference/jobs#reasons-of-the-events-of-a-job"
	seeRunModes    = "run-modes#pause-and-resume"
	seeDebugMode   = "run-modes#debug"
)

// noReplicas is the entry for a job without replicas.
var noReplicas = entry{
	words: "the job has no replicas",
	cause: "Every type of the job has 0 replicas, so nothing can run.",
	do:    "Set the number of replicas of a type.",
	fix:   "set replicas of a type to 1 or more", see: seePending,
}

// initialized has the reasons of the condition Initialized. Some of them are about a dependent of the job, such as
// NotInstalled.
var initialized = map[string]entry{
	batchv1beta1.ReasonAccepted: {
		words: "the job is accepted",
		cause: "The controller has accepted the job, and creates its replicas when they are needed.",
		next:  []step{listPods}, see: seePending,
	},
	batchv1beta1.ReasonNoReplicas: noReplicas,
	batchv1beta1.ReasonInvalidTemplate: {
		words: "no valid pod can be created from the template",
		cause: "No pod can be made from the template of the job: {message}.",
		next:  []step{describeJob}, fix: "correct the template as the message describes", see: seePending,
	},
	batchv1beta1.ReasonNameConflict:          {words: "an object has a name that the job needs", choose: nameConflict},
	batchv1beta1.ReasonCreateFailed:          {words: "the API server rejects an object of the job", choose: createFailed},
	batchv1beta1.ReasonResourceQuotaExceeded: {words: "a ResourceQuota has no room for the pods", choose: quotaRefuses},
	batchv1beta1.ReasonUpdateFailed:          notPermitted.with("the API server rejects a change of an object of the job"),
	batchv1beta1.ReasonReadFailed:            notPermitted.with("the controller cannot read an object of the job"),
	batchv1beta1.ReasonNotInstalled: {
		words: "the cluster lacks PodGroups, which the queue needs", choose: notInstalled,
	},
	batchv1beta1.ReasonAdmissionChangedPod: {
		words: "an admission policy changes labels of the pods",
		cause: "A webhook or a policy of the cluster changes labels that the controllers need: {message}.",
		do: "Ask an administrator to leave these labels alone, or to exempt the namespace {namespace}. " +
			"The job then continues automatically.",
		next: []step{describeJob, {
			purpose: "For an administrator: list the webhooks that change pods",
			line:    "kubectl get mutatingwebhookconfigurations", ofCluster: true,
		}}, see: seePending,
	},
}

// notPermitted is the entry for a controller that lacks a permission.
var notPermitted = entry{
	cause: "The controller cannot read or change an object that the job needs: {message}.",
	do:    "An administrator must give the controller the ClusterRole that was shipped with it.",
	next:  []step{describeJob, readController}, see: seePending,
}

// running has the reasons of the condition Running. The condition can also have the reasons in the tables paused,
// podGroups and initialized.
var running = map[string]entry{
	batchv1beta1.ReasonReplicasRunning:  {words: "every replica runs", choose: replicasRunning},
	batchv1beta1.ReasonPartiallyRunning: {words: "enough replicas run", choose: partiallyRunning},
	batchv1beta1.ReasonTooFewReplicas: {
		words: "fewer replicas are left than elastic.minReplicas",
		cause: "The job is elastic, but too few replicas are left: {message}.",
		do:    "How the leader {leader} ends decides how the job ends.",
		next:  []step{readFailed, readLogs}, see: seePending,
	},
	batchv1beta1.ReasonQueued: {words: "the queue has not admitted the job yet", choose: queued},
	batchv1beta1.ReasonCreating: {
		words: "pods are being created",
		cause: "The controller is creating the pods of the job, which takes seconds.",
		do:    "If this does not change, the controller does not run.",
		next:  []step{watchJob, findController}, see: seePending,
	},
	batchv1beta1.ReasonUnschedulable:   {words: "a pod fits on no node", choose: unschedulable},
	batchv1beta1.ReasonImagePull:       {words: "an image cannot be pulled", choose: imagePull},
	batchv1beta1.ReasonContainerConfig: {words: "a container cannot be started", choose: containerConfig},
	batchv1beta1.ReasonPending:         {words: "pods are starting", choose: starting},
	batchv1beta1.ReasonRestarting:      {words: "replicas are being replaced after a failure", choose: restarting},
	batchv1beta1.ReasonFinishing:       {words: "the job ends, and some pods still run", choose: finishing},
	batchv1beta1.ReasonFinished: {
		words: "the job has finished",
		cause: "The job has finished: {message}.",
		do:    "A finished job cannot be restarted. Delete it, and create it again.",
		next:  []step{readLogs, {purpose: "Delete the job", line: "kubectl train delete {job}"}}, see: seeFailed,
	},
	batchv1beta1.ReasonNoReplicas: noReplicas,
}

// stalled has the reasons of the condition Stalled.
var stalled = map[string]entry{
	batchv1beta1.ReasonNoProgress: {choose: noProgress},
	batchv1beta1.ReasonProgressUnknown: {
		cause: "It is not known whether the training makes progress, because the controller cannot read it: {message}.",
		do:    "A NetworkPolicy or a service mesh might not let the controller reach the pod.",
		next: []step{
			{purpose: "Read the log of the sidecar that receives the progress", line: "kubectl logs {leader} -c progress"},
			{purpose: "See which network policies the namespace has", line: "kubectl get networkpolicies"},
		}, see: seeStalled,
	},
	batchv1beta1.ReasonProgressing: {
		cause: "The training was stalled, and is within its deadlines again.",
		next:  []step{readLogs}, see: seeProgress,
	},
	batchv1beta1.ReasonNotRunning: {
		cause: "The training was stalled, and does not run anymore.",
		next:  []step{readLogs}, see: seeProgress,
	},
}

// paused has the reasons of the condition Paused, and of Running while the job is paused.
var paused = map[string]entry{
	batchv1beta1.ReasonPausing: {
		words: "the job is being paused",
		cause: "Its pods are being deleted ({message}). Each has the grace period of its template to save its work.",
		do:    "If a pod stays longer, its node does not answer.",
		next:  []step{listPods}, see: seePaused,
	},
	batchv1beta1.ReasonPaused: {words: "all pods are gone until the job is resumed", choose: isPaused},
	batchv1beta1.ReasonResumed: {
		words: "the job is being resumed",
		cause: "The job was paused before, and has been resumed.",
		next:  []step{watchJob}, see: seeResuming,
	},
}

// ended has the reasons of the conditions SuccessCriteriaMet, FailureTarget, Completed and Failed.
var ended = map[string]entry{
	batchv1beta1.ReasonLeaderSucceeded: {
		words: "the leader succeeded",
		cause: "Its leader {leader} ended with exit code 0.",
		next:  []step{readLogs}, see: seeSucceeded,
	},
	batchv1beta1.ReasonBackoffLimitExceeded: {
		words: "a replica failed, and no restart is left", choose: backoffLimitExceeded,
	},
	batchv1beta1.ReasonPermanentFailure: {words: "a replica failed and is not restarted", choose: permanentFailure},
	batchv1beta1.ReasonMaxDurationExceeded: {
		words: "the job ran for longer than its queue allows",
		cause: "The pods of the job were on nodes for as long as the queue allows: {message}.",
		do: "A job that saves checkpoints can continue from them. Delete the job, and create it again. " +
			"An administrator can raise spec.maxDuration of the queue.",
		next: []step{readLogs, describeQueue, deleteToRepeat}, see: seeFailed,
	},
	batchv1beta1.ReasonDeadlineExceeded: {
		words: "the job was active for longer than its deadline", choose: deadlineExceeded,
	},
}

// deleteToRepeat deletes a job that has finished.
var deleteToRepeat = step{
	purpose: "Delete the job, to create it again", line: "kubectl train delete {job}",
}

// failures has the reasons of the condition ReplicaFailure and of status.failures.
var failures = map[string]entry{
	batchv1beta1.ReasonError:     {choose: failedWithError},
	batchv1beta1.ReasonOOMKilled: {choose: outOfMemory},
	batchv1beta1.ReasonPreempted: {
		cause: "{who} had to make room for a pod of a higher priority.",
		do: "This is no failure of the program. To be preempted less often, use a queue or a PriorityClass of a " +
			"higher priority.",
		next: []step{podEventsOf, listJobs}, see: seeFailed,
	},
	batchv1beta1.ReasonEvicted:  {choose: evicted},
	batchv1beta1.ReasonNodeLost: {choose: nodeLost},
	batchv1beta1.ReasonNodeShutdown: {
		cause: "{who} ended because its node was shut down.",
		do:    "This is no failure of the program.",
		next:  []step{describeNode, podEventsOf}, see: seeFailed,
	},
	batchv1beta1.ReasonDeviceUnhealthy: {choose: deviceUnhealthy},
	batchv1beta1.ReasonDeviceTainted:   {choose: deviceTainted},
	batchv1beta1.ReasonDisrupted: {
		cause: "{who} was ended by Kubernetes: {message}.",
		do:    "This is no failure of the program.",
		next:  []step{podEventsOf, describeNode}, see: seeFailed,
	},
	batchv1beta1.ReasonDeleted: {
		cause: "The pod of replica {replica} was deleted by somebody or by another controller.",
		do:    "Such a restart does not count towards runPolicy.backoffLimit.",
		next:  []step{podEventsOf, listPods}, see: seeFailed,
	},
	batchv1beta1.ReasonCompleted: {
		cause: "Replica {replica} ended with exit code 0, and its restart policy Always starts it again.",
		do:    "If it must not run again, use the restart policy OnFailure.",
		next:  []step{readLogs}, fix: "set restartPolicy to OnFailure", see: seeFailed,
	},
	batchv1beta1.ReasonNoProgress: {
		cause: "Replica {replica} stalled, and runPolicy.progressPolicy is Restart: {message}.",
		do:    "To look at the pods that hang, set runPolicy.progressPolicy to Notify.",
		next:  []step{readLogs, {purpose: "Change runPolicy.progressPolicy", line: "kubectl edit {job}"}}, see: seeStalled,
	},
	batchv1beta1.ReasonRecovered: {
		cause: "A replica had failed, and all replicas run again.",
		next:  []step{readFailed}, see: seeRunning,
	},
}

// jobEvents has the reasons of the events of a job.
var jobEvents = map[string]entry{
	batchv1beta1.EventCreated: {
		cause: "Replicas were created {when}: {message}.", next: []step{listPods}, see: seeEvents,
	},
	batchv1beta1.EventRunning: {
		cause: "The job began to run {when}: {message}.", next: []step{readLogs}, see: seeEvents,
	},
	batchv1beta1.EventNoEffect: {
		cause: "A part of the spec has no effect: {message}.",
		next:  []step{{purpose: "Read the spec of the job", line: "kubectl get {job} -o yaml"}}, see: seePending,
	},
	batchv1beta1.EventReplicaFailed: {
		cause: "The job continues without a replica that failed {when}: {message}.", next: []step{readFailed}, see: seeEvents,
	},
	batchv1beta1.EventRestarting: {
		cause: "The last restart was {when}: {message}.", next: []step{readFailed}, see: seeEvents,
	},
	batchv1beta1.EventRestartedInPlace: {
		cause: "The last restart in place was {when}: {message}.",
		next:  []step{readLogs, {purpose: "Show the last restarts in place", line: "kubectl get {job} -o yaml"}},
		see:   seeRunning,
	},
	batchv1beta1.EventStalled: {
		cause: "The training stalled {when}: {message}.", next: []step{readLogs}, see: seeStalled,
	},
	batchv1beta1.EventProgressing: {
		cause: "The training reported progress again {when}.", next: []step{readLogs}, see: seeProgress,
	},
	batchv1beta1.EventNodeAvoided: {
		cause: "The job began to avoid a node {when}: {message}.", next: []step{describeNodes}, see: seeBadNodes,
	},
	batchv1beta1.EventNodeAllowed: {
		cause: "The job stopped avoiding a node {when}: {message}.", next: []step{describeNodes}, see: seeBadNodes,
	},
	batchv1beta1.EventScaled: {
		cause: "The job was scaled {when}: {message}.", next: []step{listPods}, see: seeElastic,
	},
	batchv1beta1.EventPaused: {
		cause: "The job was paused {when}.",
		next:  []step{{purpose: "Let the job run again", line: "kubectl train resume {job}"}}, see: seeRunModes,
	},
	batchv1beta1.EventResumed: {
		cause: "The job was resumed {when}.", next: []step{watchJob}, see: seeRunModes,
	},
	batchv1beta1.EventStopped: {
		cause: "Its replicas were stopped {when}: {message}.",
		do:    "They start again when the job is admitted again.",
		next:  []step{describeWorkload, jobEventsOf}, see: seeKueue,
	},
	batchv1beta1.EventCompleted: {
		cause: "The job succeeded {when}.", next: []step{readLogs}, see: seeSucceeded,
	},
	batchv1beta1.EventFailed: {
		cause: "The job failed {when}: {message}.", next: []step{readFailed}, see: seeFailed,
	},
}
