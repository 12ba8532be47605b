// Package why explains why a job is in its state: what it waits for, or why it failed, and what to do next. The package
// is pure. It gets facts and returns texts and commands, and reads nothing itself.
package why

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Facts are a job and the objects around it, as far as the user may read them. Every field except Now and Job can be
// unset.
type Facts struct {
	// Now is the present time.
	Now time.Time
	// Job is the job to explain.
	Job jobs.Job
	// Pods are the pods of the job.
	Pods []corev1.Pod
	// Events are the events of the job and its pods.
	Events []corev1.Event
	// Nodes are all nodes of the cluster. They matter only for a job with a pod that fits on no node.
	Nodes []corev1.Node
	// Controllers are the pods of the controller of the job. They matter only for a job that has no status.
	Controllers []corev1.Pod

	// PodGroup is the PodGroup of the job, and Queue is its Queue.
	PodGroup *schedulerv1beta1.PodGroup
	Queue    *schedulerv1beta1.Queue
	// Rivals are the PodGroups of the same Queue. They can include the PodGroup of the job.
	Rivals []schedulerv1beta1.PodGroup
	// HasAllRivals reports whether Rivals has all PodGroups of the Queue, in all namespaces.
	HasAllRivals bool

	// Workload is the Workload by which Kueue admits the job. LocalQueue and ClusterQueue are its queues.
	Workload     *kueuev1beta2.Workload
	LocalQueue   *KueueQueue
	ClusterQueue *KueueQueue

	// TensorBoard is the TensorBoard of the job.
	TensorBoard *tensorboardv1beta1.TensorBoard

	// NotRead are the objects that cannot be read, such as "the events".
	NotRead []string
	// Flags are the flags that the user must add to each command to reach the namespace, such as "-n team-a".
	// ClusterFlags are the part of Flags that a command about the whole cluster needs, such as "--context prod".
	Flags, ClusterFlags string
}

// KueueQueue is a LocalQueue or a ClusterQueue of Kueue.
type KueueQueue struct {
	// Kind is LocalQueue or ClusterQueue.
	Kind, Name string
	// Inactive is the message of a queue that admits nothing. It is empty for an active queue.
	Inactive string
	// Pending is the number of Workloads that wait in the queue.
	Pending int64
}

// Explanation explains why a job is in its state. Its texts have no control characters.
type Explanation struct {
	// Job is the job as the user types it, such as ptjob/digits, and Namespace is its namespace.
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	// Phase and Reason are the phase and the reason in the status of the job.
	Phase  string `json:"phase,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Text is a paragraph of plain sentences.
	Text string `json:"text"`
	// Output has the last lines of output of the replica that failed.
	Output []string `json:"output,omitempty"`
	// Next are the commands to type next. There is at least one.
	Next []Command `json:"next"`
	// See are pages and sections that kubectl train docs prints, such as troubleshooting#failed.
	See []string `json:"see,omitempty"`
	// Findings explain each reason that the objects of the job have, the most important first.
	Findings []Finding `json:"findings"`
}

// Command is a command to type next.
type Command struct {
	// Purpose is what the command is for.
	Purpose string `json:"purpose"`
	// Line is the command as the user types it.
	Line string `json:"command"`
}

// Finding explains a reason that an object reports.
type Finding struct {
	// Object is the object with the reason, such as ptjob/digits. Condition is the type of the condition with the
	// reason, or the name of another source of the reason, such as Event or Failure.
	Object    string `json:"object"`
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
	// Text are sentences that name the cause and what to do.
	Text string `json:"text"`
	// Next are the commands to type next, and See is a page or section that kubectl train docs prints.
	Next []Command `json:"next"`
	See  string    `json:"see,omitempty"`

	weight weight
}

// weight is how important a finding is. A lower weight is more important.
type weight int

const (
	// root is the weight of the cause of the main finding, such as the failure that ended the job.
	root weight = iota
	// main is the weight of a finding that explains the state of the job.
	main
	// note is the weight of a finding that Explanation.Text mentions, unless maxNotes other notes come before it.
	note
	// quiet is the weight of a finding that Explanation.Findings has, but that Explanation.Text does not mention.
	quiet
)

// maxNext is the maximum number of commands of an explanation. A user reads only a few.
const maxNext = 5

// maxNotes is the maximum number of notes in Explanation.Text.
const maxNotes = 3

// Explain explains the state of a job.
func Explain(facts Facts) Explanation {
	v := newView(facts)
	findings := v.findings()
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.weight, b.weight) })
	e := Explanation{
		Job: v.Job.Ref(), Namespace: v.Job.GetNamespace(), Phase: string(v.status.Phase),
		Reason: clean(v.status.Reason), Output: v.output(), Findings: findings,
	}
	texts := []string{v.lead()}
	notes := 0
	for _, f := range findings {
		if f.weight == note {
			notes++
		}
		if f.weight == quiet || notes > maxNotes {
			break
		}
		texts = append(texts, f.Text)
		for _, command := range f.Next {
			if !slices.ContainsFunc(e.Next, func(c Command) bool { return c.Line == command.Line }) {
				e.Next = append(e.Next, command)
			}
		}
		if f.See != "" && !slices.Contains(e.See, f.See) {
			e.See = append(e.See, f.See)
		}
	}
	if len(e.Next) == 0 {
		e.Next = v.commands(entry{next: []step{describeJob}})
	}
	e.Next = e.Next[:min(len(e.Next), maxNext)]
	e.See = e.See[:min(len(e.See), 2)]
	e.Text = clean(sentences(append(texts, v.gaps())...))
	return e
}
