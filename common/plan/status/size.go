package status

import (
	"encoding/json"
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

const (
	// maxObject is the maximum size in bytes of a job with its status. It is the 1.5 MiB that etcd accepts, minus a
	// reserve for additions to the status after the decision.
	maxObject = 1536<<10 - 64<<10
	// restOfSmallJob is an upper bound, in bytes, for the size of a small job without its status. Most of the size can
	// be annotations and managed fields.
	restOfSmallJob = 512 << 10
	// maxMessages is an upper bound, in bytes, for the JSON of all messages of a status.
	maxMessages = 512 << 10
	// maxReason is the maximum length, in bytes, of a container's reason in a status.
	maxReason = 128
	// shortMessage is the maximum length, in bytes, of a message in a status without room for longer messages.
	shortMessage = 256
)

// omission is a part of the status that is left out if the job is too large.
type omission struct {
	// note is the text in status.omitted. Empty means that nothing is left out.
	note string
	// omit leaves the part out.
	omit func(*renderer)
}

// omissions lists the parts that can be left out of a status, the least important first. If a part is left out, all
// parts before it are left out, too. Names, UIDs, phases and attempts are always kept, because the controller itself
// reads them. The controller also reads the exit codes of failures, which are kept as long as there is room.
var omissions = []omission{
	{note: "", omit: func(*renderer) {}},
	{
		note: "the containers of replicas, since the job is too large: see the pods that status.selector selects",
		omit: omitContainers,
	},
	{
		note: "the containers and nodes of replicas, since the job is too large: see the pods that status.selector selects",
		omit: omitNodes,
	},
	{
		note: "the containers and nodes of replicas and the ends of messages, since the job is too large: " +
			"see the pods that status.selector selects, and their logs",
		omit: shortenMessages,
	},
	{
		note: "the containers, nodes and exit codes of replicas and the ends of messages, since the job is too large: " +
			"see the pods that status.selector selects, and their logs",
		omit: omitExitCodes,
	},
}

// fit leaves out parts of the status if the job is too large for the API server. It never restores a part that was
// left out before, because it could not restore the part for replicas whose pods are gone.
func (r *renderer) fit() {
	if !r.updatesTasks() {
		return
	}
	before := slices.IndexFunc(omissions, func(o omission) bool { return o.note == r.Job.Status.Omitted })
	fits := boundOf(&r.Status)+maxMessages+restOfSmallJob <= maxObject
	if before <= 0 && r.Job.RestSize == nil && fits {
		return // an upper bound suffices for nearly all jobs, and an exact measurement is expensive
	}
	room := maxObject - restOfSmallJob
	if r.Job.RestSize != nil {
		room = maxObject - r.Job.RestSize()
	}
	for i, o := range omissions {
		o.omit(r)
		r.Status.Omitted = o.note
		if i >= before && sizeOf(r.Status) <= room {
			return
		}
	}
}

// boundOf returns an upper bound, in bytes, for the JSON of the tasks of a status.
func boundOf(status *batchv1beta1.JobStatus) int {
	// These are upper bounds in bytes. The first two are for the field names, numbers and times of a replica and of a
	// container. The last one is for an escaped character of a reason.
	const replica, container, escaped = 160, 80, 6
	bytes := 0
	for r := range status.EachReplica() {
		bytes += replica + len(r.Name) + len(r.UID) + len(r.Phase) + len(r.Node)
		for _, c := range r.Containers {
			bytes += container + len(c.Name) + len(c.State) + escaped*len(c.Reason)
		}
	}
	return bytes
}

func sizeOf(status batchv1beta1.JobStatus) int {
	content, err := json.Marshal(status)
	if err != nil {
		return 0 // every status can be encoded as JSON
	}
	return len(content)
}

// omitContainers leaves out the containers of replicas, except main containers that failed. Their exit codes stay,
// because they decide whether a replica is restarted, and a pod that is gone no longer has them.
func omitContainers(r *renderer) {
	replicas := r.ByName()
	for entry := range r.Status.EachReplica() {
		failed := func(c batchv1beta1.ContainerStatus) bool {
			return c.Name == replicas[entry.Name].MainContainer && c.ExitCode != nil && *c.ExitCode != 0
		}
		i := slices.IndexFunc(entry.Containers, failed)
		if i < 0 {
			entry.Containers = nil
		} else {
			entry.Containers = []batchv1beta1.ContainerStatus{entry.Containers[i]}
		}
	}
}

func omitExitCodes(r *renderer) {
	for entry := range r.Status.EachReplica() {
		entry.Containers = nil
	}
}

func omitNodes(r *renderer) {
	for entry := range r.Status.EachReplica() {
		entry.Node = ""
	}
}

func shortenMessages(r *renderer) {
	status := &r.Status
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Reason == batchv1beta1.ReasonResourceQuotaExceeded {
			continue // the controller reads this message
		}
		c.Message = report.Truncated(c.Message, shortMessage)
	}
	for i := range status.Failures {
		f := &status.Failures[i]
		f.Message = report.Truncated(f.Message, shortMessage)
	}
}
