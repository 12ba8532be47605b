package plan

import (
	"encoding/json"
	"slices"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

const (
	// maxObject is how much the API server stores of a job, in bytes: the 1.5 MiB that etcd accepts, less what is added
	// to a status after it was decided.
	maxObject = 1536<<10 - 64<<10
	// restOfSmallJob is at least what the API server stores of a small job besides its status, in bytes. Most of it may be
	// annotations and managed fields.
	restOfSmallJob = 512 << 10
	// maxMessages is at most what the messages of a status take as JSON, in bytes.
	maxMessages = 512 << 10
	// maxReason is the longest reason of a container in a status, in bytes.
	maxReason = 128
	// shortMessage is the longest message in a status that has no room for longer ones, in bytes.
	shortMessage = 256
)

// omission is what a status leaves out.
type omission struct {
	// note is what the status says about it. Empty means that nothing is left out.
	note string
	// omit leaves it out.
	omit func(*steps)
}

// omissions are what a status may leave out, in addition to what comes before, the least important first. What the
// controller itself reads of a status stays: names, UIDs, phases, attempts, and as long as there is room the exit codes
// of failures.
var omissions = []omission{
	{note: "", omit: func(*steps) {}},
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

// fit leaves out of the status what the API server has no room for. It never puts back what was left out before: a
// replica that has ended has no more than its entry.
func (s *steps) fit() {
	before := slices.IndexFunc(omissions, func(o omission) bool { return o.note == s.job.Status.Omitted })
	//equivalent:boundary of boundOf(s.Status.Tasks)+maxMessages+restOfSmallJob <= maxObj... => both fit at the limit
	//equivalent:never boundOf(s.Status.Tasks)+maxMessages+restOfSmallJob <= maxObj... => to measure exactly takes longer
	fits := boundOf(s.Status.Tasks)+maxMessages+restOfSmallJob <= maxObject
	//equivalent:never before <= 0 && s.job.RestSize == nil && fits => as above
	//equivalent:boundary of before <= 0 => as above
	if before <= 0 && s.job.RestSize == nil && fits {
		//equivalent:without return => as above
		return // as with nearly all jobs: to measure exactly is expensive
	}
	room := maxObject - restOfSmallJob
	if s.job.RestSize != nil {
		room = maxObject - s.job.RestSize()
	}
	for i, o := range omissions {
		o.omit(s)
		s.Status.Omitted = o.note
		if i >= before && sizeOf(s.Status) <= room {
			return
		}
	}
}

// boundOf returns how many bytes tasks take at most as JSON.
func boundOf(tasks []batchv1beta1.TaskStatus) int {
	const replica, container, escaped = 160, 80, 6 // the names of fields, numbers and times; a character of a reason
	bytes := 0
	for _, task := range tasks {
		for i := range task.Replicas {
			r := &task.Replicas[i]
			bytes += replica + len(r.Name) + len(r.UID) + len(r.Phase) + len(r.Node)
			for _, c := range r.Containers {
				bytes += container + len(c.Name) + len(c.State) + escaped*len(c.Reason)
			}
		}
	}
	return bytes
}

func sizeOf(status batchv1beta1.JobStatus) int {
	content, err := json.Marshal(status)
	//equivalent:never err != nil => a status has nothing that JSON cannot express
	if err != nil {
		return 0 // it has nothing that JSON cannot express
	}
	return len(content)
}

// omitContainers leaves out the containers of replicas, but a main one that failed: its exit code decides whether the
// replica is restarted if its pod is gone.
func omitContainers(s *steps) {
	mains := make(map[string]string, len(s.replicas))
	for _, r := range s.replicas {
		mains[r.member.Name] = r.mainContainer
	}
	eachReplica(s, func(r *batchv1beta1.ReplicaStatus) {
		failed := func(c batchv1beta1.ContainerStatus) bool {
			return c.Name == mains[r.Name] && c.ExitCode != nil && *c.ExitCode != 0
		}
		i := slices.IndexFunc(r.Containers, failed)
		if i < 0 {
			r.Containers = nil
		} else {
			r.Containers = []batchv1beta1.ContainerStatus{r.Containers[i]}
		}
	})
}

func omitExitCodes(s *steps) {
	eachReplica(s, func(r *batchv1beta1.ReplicaStatus) { r.Containers = nil })
}

func omitNodes(s *steps) {
	eachReplica(s, func(r *batchv1beta1.ReplicaStatus) { r.Node = "" })
}

func eachReplica(s *steps, change func(*batchv1beta1.ReplicaStatus)) {
	for _, task := range s.Status.Tasks {
		for i := range task.Replicas {
			change(&task.Replicas[i])
		}
	}
}

func shortenMessages(s *steps) {
	status := &s.Status
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Message = report.Truncated(c.Message, shortMessage)
	}
	for i := range status.Failures {
		f := &status.Failures[i]
		f.Message = report.Truncated(f.Message, shortMessage)
	}
}
