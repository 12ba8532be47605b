package why

import (
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// podGroups has the reasons of the conditions of a PodGroup. The condition Running of its job can have them, too.
var podGroups = map[string]entry{
	schedulerv1beta1.ReasonAdmitted: {
		words: "the queue admits the job",
		cause: "Queue {queue} admits the job.", next: []step{describeGroup}, see: seeQueue,
	},
	schedulerv1beta1.ReasonQueueNotFound: {
		words: "the queue does not exist",
		cause: "The job is for Queue {queue}, but there is no such queue.",
		do: "Ask an administrator to create the queue. The queue of a job cannot be changed, so to use another one, delete " +
			"the job and create it again.",
		next: []step{listQueues, {
			purpose: "Delete the job, to create it again for another queue", line: "kubectl train delete {job}",
		}}, see: seeQueue,
	},
	schedulerv1beta1.ReasonQueueClosed: {
		words: "the queue is closed",
		cause: "Queue {queue} is closed, so none of its jobs gets resources.",
		do:    "An administrator has closed it. Ask when it opens again.",
		next:  []step{describeQueue, listQueues}, see: seeQueue,
	},
	schedulerv1beta1.ReasonNamespaceNotSelected: {
		words: "the queue does not admit this namespace",
		cause: "Queue {queue} is not for jobs of the namespace {namespace}.",
		do:    "Ask an administrator to select the namespace in the namespaceSelector of the queue, or use another queue.",
		next: []step{describeQueue, listQueues, {
			purpose: "See the labels of the namespace", line: "kubectl get namespace {namespace} --show-labels", ofCluster: true,
		}}, see: seeQueue,
	},
	schedulerv1beta1.ReasonQuotaExceeded: {words: "the rest of the quota is too small for the job", choose: quotaExceeded},
	schedulerv1beta1.ReasonEngineNotReady: {
		words: "the scheduler is not configured for gangs",
		cause: "The scheduler of the cluster lacks something that queues need: {message}.",
		do:    "Only an administrator can fix this, for all jobs in queues.",
		next:  []step{describeGroup}, see: seeEngines,
	},
	schedulerv1beta1.ReasonEarlierGroup: {
		words: "some pods of an earlier gang have not ended",
		cause: "Pods of an earlier job with this name, or from before a pause, have not ended.",
		do: "They end within their grace period, and the job continues automatically. If a pod is not Terminating, its job " +
			"was deleted without it: delete the pod, too.",
		next: []step{listPods}, see: seeQueue,
	},
	schedulerv1beta1.ReasonEnoughPods: {
		words: "the pods of the gang exist",
		cause: "As many pods exist as the group of the job needs.", next: []step{listPods}, see: seeQueue,
	},
	schedulerv1beta1.ReasonTooFewPods: {
		words: "some pods of the gang do not exist yet",
		cause: "The job starts as a whole, and some of its pods do not exist yet: {message}.",
		do:    "This takes seconds. If it does not change, the controller does not run.",
		next:  []step{listPods, findController}, see: seeQueue,
	},
	schedulerv1beta1.ReasonScheduled: {
		words: "the gang has nodes",
		cause: "All pods that the job needs have nodes.", next: []step{listPods}, see: seeQueue,
	},
	schedulerv1beta1.ReasonScheduling: {
		words: "the gang is being scheduled",
		cause: "The job starts as a whole, and the scheduler has not placed its pods yet: {message}.",
		do:    "If this does not change, the scheduler t9k-scheduler does not run.",
		next:  []step{watchJob, describeGroup}, see: seeQueue,
	},
	schedulerv1beta1.ReasonUnschedulable: {choose: unschedulable},
	schedulerv1beta1.ReasonPriorityClassMismatch: {
		words: "a pod has another PriorityClass than its gang", choose: priorityClassMismatch,
	},
	schedulerv1beta1.ReasonMaxDurationExceeded: ended[schedulerv1beta1.ReasonMaxDurationExceeded],
	schedulerv1beta1.ReasonNotSupportedByEngine: {
		words: "the engine ignores a part of the PodGroup",
		cause: "The scheduler of the cluster ignores a part of the PodGroup: {message}.",
		next:  []step{describeGroup}, see: seeQueue,
	},
}

// queues has the reasons of the conditions of a Queue.
var queues = map[string]entry{
	schedulerv1beta1.ReasonOpen: {
		cause: "Queue {queue} is open.", next: []step{describeQueue}, see: seeQueue,
	},
	schedulerv1beta1.ReasonQueueClosed: podGroups[schedulerv1beta1.ReasonQueueClosed],
	schedulerv1beta1.ReasonNotSupportedByEngine: {
		cause: "The scheduler of the cluster ignores a part of Queue {queue}: {message}.",
		next:  []step{describeQueue}, see: seeQueue,
	},
}

// queuedPodEvents has the reasons of the events of pods that are scheduled from a queue.
var queuedPodEvents = map[string]entry{
	schedulerv1beta1.EventMaxDuration: {
		cause: "A pod of the job was deleted {when}, because it was on its node for longer than the queue allows: {message}.",
		do:    "An administrator can raise spec.maxDuration of the queue.",
		next:  []step{describeQueue, jobEventsOf}, see: seeQueue,
	},
}
