package screen

import (
	"fmt"
	"strings"
	"unicode"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// words describe the reasons of jobs in a few words. A screen shows them after the phase.
var words = map[string]string{
	batchv1beta1.ReasonAccepted:                  "the job is accepted",
	batchv1beta1.ReasonNoReplicas:                "the job has no replicas",
	batchv1beta1.ReasonInvalidTemplate:           "no valid pod can be created from the template",
	batchv1beta1.ReasonNameConflict:              "an object has a name that the job needs",
	batchv1beta1.ReasonCreateFailed:              "the API server rejects an object of the job",
	batchv1beta1.ReasonResourceQuotaExceeded:     "a ResourceQuota has no room for the pods",
	batchv1beta1.ReasonAdmissionChangedPod:       "an admission policy changes labels of the pods",
	batchv1beta1.ReasonReplicasRunning:           "every replica runs",
	batchv1beta1.ReasonPartiallyRunning:          "enough replicas run",
	batchv1beta1.ReasonTooFewReplicas:            "fewer replicas are left than elastic.minReplicas",
	batchv1beta1.ReasonQueued:                    "the queue has not admitted the job yet",
	batchv1beta1.ReasonCreating:                  "pods are being created",
	batchv1beta1.ReasonUnschedulable:             "a pod fits on no node",
	batchv1beta1.ReasonImagePull:                 "an image cannot be pulled",
	batchv1beta1.ReasonContainerConfig:           "a container cannot be started",
	batchv1beta1.ReasonPending:                   "pods are starting",
	batchv1beta1.ReasonRestarting:                "replicas are being replaced after a failure",
	batchv1beta1.ReasonFinishing:                 "the job ends, and some pods still run",
	batchv1beta1.ReasonFinished:                  "the job has finished",
	batchv1beta1.ReasonPausing:                   "the job is being paused",
	batchv1beta1.ReasonPaused:                    "all pods are gone until the job is resumed",
	batchv1beta1.ReasonResumed:                   "the job is being resumed",
	batchv1beta1.ReasonLeaderSucceeded:           "the leader succeeded",
	batchv1beta1.ReasonBackoffLimitExceeded:      "a replica failed, and no restart is left",
	batchv1beta1.ReasonPermanentFailure:          "a replica failed and is not restarted",
	batchv1beta1.ReasonMaxDurationExceeded:       "the job ran for longer than its queue allows",
	batchv1beta1.ReasonDeadlineExceeded:          "the job was active for longer than its deadline",
	batchv1beta1.ReasonNotInstalled:              "the cluster lacks PodGroups, which the queue needs",
	batchv1beta1.ReasonReadFailed:                "the controller cannot read an object of the job",
	batchv1beta1.ReasonUpdateFailed:              "the API server rejects a change of an object of the job",
	schedulerv1beta1.ReasonQueueNotFound:         "the queue does not exist",
	schedulerv1beta1.ReasonQueueClosed:           "the queue is closed",
	schedulerv1beta1.ReasonNamespaceNotSelected:  "the queue does not admit this namespace",
	schedulerv1beta1.ReasonQuotaExceeded:         "the rest of the quota is too small for the job",
	schedulerv1beta1.ReasonEngineNotReady:        "the scheduler is not configured for gangs",
	schedulerv1beta1.ReasonEarlierGroup:          "some pods of an earlier gang have not ended",
	schedulerv1beta1.ReasonScheduling:            "the gang is being scheduled",
	schedulerv1beta1.ReasonTooFewPods:            "some pods of the gang do not exist yet",
	schedulerv1beta1.ReasonPriorityClassMismatch: "a pod has another PriorityClass than its gang",
}

// HasWords reports whether the map words has a description of the reason.
func HasWords(reason string) bool { return words[reason] != "" }

// inWords describes a reason in a few words. A newer controller can have reasons that are not in the map words. For
// such a reason, the result is the name of the reason, split into words.
func inWords(reason string) string {
	if HasWords(reason) {
		return words[reason]
	}
	var b strings.Builder
	for i, r := range printable.Line(reason) {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// exitOf describes how a container ended.
func exitOf(code int32, reason string) string {
	if reason == "" {
		return fmt.Sprintf("exit code %d", code)
	}
	return fmt.Sprintf("exit code %d (%s)", code, reason)
}

// howFailed describes a failure: which replica and rank failed, how, and on which node.
func (s Snapshot) howFailed(f batchv1beta1.ReplicaFailure) string {
	who := s.shortName(f.Replica)
	if f.Rank != nil {
		who += fmt.Sprintf(" (rank %d)", *f.Rank)
	}
	if f.Node != "" {
		who += " on " + f.Node
	}
	how := []string{f.Reason}
	if f.ExitCode != nil {
		how[0] = exitOf(*f.ExitCode, f.Reason)
	}
	switch {
	case f.RankSignal != "":
		how = append(how, f.RankSignal+" ended the rank")
	case f.RankExitCode != nil && f.ExitCode != nil && *f.RankExitCode != *f.ExitCode:
		how = append(how, fmt.Sprintf("exit code %d of the rank", *f.RankExitCode))
	}
	for _, d := range f.Devices {
		how = append(how, fmt.Sprintf("%s %s is unhealthy", d.Resource, d.ID))
	}
	if !f.Counted {
		how = append(how, "not counted")
	}
	return printable.Line(who + ": " + strings.Join(how, ", "))
}

// inWordsOfNode returns why a job avoids a node, in a few words.
func inWordsOfNode(reason string) string {
	switch reason {
	case batchv1beta1.ReasonNodeLost:
		return "was lost twice"
	case batchv1beta1.ReasonDeviceUnhealthy:
		return "had unhealthy devices twice"
	case batchv1beta1.ReasonDeviceTainted:
		return "had tainted devices twice"
	default:
		return printable.Line(reason)
	}
}
