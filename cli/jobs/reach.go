package jobs

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// Goal checks whether a job is in the state that it should reach. If so, waitsFor is empty. If not, waitsFor
// describes what the job waits for. An error means that the job can no longer reach the state.
type Goal func(Job) (waitsFor string, err error)

// ErrFailed is for errors.Is: it matches the error of a goal that a job cannot reach because the job has failed.
var ErrFailed = errors.New("the job has failed")

// EndError means that a job cannot reach a state because the job has ended, or its end is decided.
type EndError struct {
	job Job
}

// Error describes how the job has ended.
func (e *EndError) Error() string {
	status := e.job.JobStatus()
	how := "has failed"
	if Succeeded(*status) {
		how = "has succeeded"
	}
	for _, condition := range []string{
		batchv1beta1.ConditionFailed, batchv1beta1.ConditionFailureTarget,
		batchv1beta1.ConditionCompleted, batchv1beta1.ConditionSuccessCriteriaMet,
	} {
		if c := meta.FindStatusCondition(status.Conditions, condition); c != nil && c.Message != "" {
			first, _, _ := strings.Cut(WithoutOutput(c.Message), "\n")
			return fmt.Sprintf("%s %s (%s: %s)", e.job.Ref(), how, c.Reason, first)
		}
	}
	return e.job.Ref() + " " + how
}

// Message returns the message of the condition that has the same reason as the phase. If no condition with this reason
// has a message, it returns the message of the condition Running.
func (j Job) Message() string {
	status := j.JobStatus()
	for _, c := range status.Conditions {
		if c.Reason == status.Reason && c.Message != "" {
			return c.Message
		}
	}
	if running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning); running != nil {
		return running.Message
	}
	return ""
}

// WithoutOutput returns the message of a condition without the output of the replica that failed.
func WithoutOutput(message string) string {
	message, _, _ = strings.Cut(message, "; its last output:\n")
	return message
}

// Is reports whether the target is ErrFailed and the job has failed.
func (e *EndError) Is(target error) bool {
	return target == ErrFailed && !Succeeded(*e.job.JobStatus())
}

// Succeeded reports whether the job has succeeded, or it is decided that the job will succeed.
func Succeeded(status batchv1beta1.JobStatus) bool {
	return status.Phase == batchv1beta1.JobPhaseSucceeded ||
		meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionSuccessCriteriaMet)
}

// End returns an error that describes how the job has ended, or nil if its end is not decided.
func (j Job) End() error {
	if j.JobStatus().Decided() {
		return &EndError{job: j}
	}
	return nil
}

// IsPaused is the goal of a pause: all pods of the job are gone.
func IsPaused(job Job) (string, error) {
	if err := job.End(); err != nil {
		return "", err
	}
	if !job.Spec().RunMode.Pausing() {
		return "", fmt.Errorf("%s was resumed meanwhile", job.Ref())
	}
	if waits := job.unobserved(); waits != "" {
		return waits, nil
	}
	paused := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionPaused)
	if paused == nil || paused.Status != metav1.ConditionTrue {
		return explain(paused, "the controller deletes the pods"), nil
	}
	return "", nil
}

// IsRunning is the goal of a job that should train: the condition Running is True.
func IsRunning(job Job) (string, error) {
	if err := job.End(); err != nil {
		return "", err
	}
	if job.Spec().RunMode.Pausing() {
		return "", fmt.Errorf("%s is paused: resume it with kubectl train resume %s", job.Ref(), job.Typed())
	}
	if waits := job.unobserved(); waits != "" {
		return waits, nil
	}
	running := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionRunning)
	if running == nil || running.Status != metav1.ConditionTrue {
		return job.explainStart(running), nil
	}
	return "", nil
}

// HasResumed is the goal of a job that is resumed: it runs, or it has already succeeded.
func HasResumed(job Job) (string, error) {
	if Succeeded(*job.JobStatus()) {
		return "", nil
	}
	return IsRunning(job)
}

// HasReplicas returns the goal of a job that is scaled to n replicas: all of them run, or have ended and are not
// restarted.
func HasReplicas(n int32) Goal {
	return func(job Job) (string, error) {
		if err := job.End(); err != nil {
			return "", err
		}
		spec := job.Spec()
		if spec.Elastic == nil || spec.Elastic.Expected() != n {
			return "", fmt.Errorf("%s was scaled to another number of replicas meanwhile", job.Ref())
		}
		if spec.RunMode.Pausing() {
			return "", fmt.Errorf("%s was paused meanwhile: it gets %s when you resume it with kubectl train resume %s",
				job.Ref(), report.Count(int(n), "replica"), job.Typed())
		}
		if waits := job.unobserved(); waits != "" {
			return waits, nil
		}
		running := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionRunning)
		hasAll := len(job.Replicas()) == int(n)
		if hasAll && running != nil && running.Reason == batchv1beta1.ReasonReplicasRunning {
			return "", nil
		}
		return job.explainStart(running), nil
	}
}

// unobserved explains that the controller has not seen the latest spec. If the controller has seen this spec, the
// result is empty.
func (j Job) unobserved() string {
	if j.JobStatus().ObservedGeneration >= j.GetGeneration() {
		return ""
	}
	if spec := j.Spec(); !spec.RunsHere() && !spec.RunsElsewhere() {
		return fmt.Sprintf("the controller %s, which spec.managedBy names, has not seen the latest spec", spec.ManagedBy)
	}
	return "the controller has not seen the latest spec yet"
}

// explainStart explains why a job does not run.
func (j Job) explainStart(running *metav1.Condition) string {
	text := explain(running, "the controller creates the pods")
	if running != nil && running.Reason == batchv1beta1.ReasonQueued {
		return "the job is in a queue: " + text
	}
	return text
}

// explain returns the reason and the message of a condition, or the alternative if there is no condition.
func explain(c *metav1.Condition, otherwise string) string {
	if c == nil {
		return otherwise
	}
	return c.Reason + ": " + c.Message
}

// CheckPods returns an error if the pods and the TensorBoard of a job are in another cluster.
func CheckPods(job Job) error {
	if job.Spec().RunsElsewhere() {
		return fmt.Errorf("MultiKueue runs %s in another cluster, which has its pods: kubectl train why %s names the "+
			"cluster, and --context selects it", job.Ref(), job.Typed())
	}
	return nil
}

// CheckPause returns why a job cannot be paused, or nil.
func CheckPause(job Job) error {
	if err := job.End(); err != nil {
		return fmt.Errorf("%w, so there is nothing to pause", err)
	}
	if job.Spec().RunMode.Debugging() {
		return fmt.Errorf("%s is in debug mode, and a job in debug mode cannot be paused: to free its resources, "+
			"delete it with kubectl train delete %s", job.Ref(), job.Typed())
	}
	return nil
}

// CheckScale returns why a job cannot have n replicas, or nil.
func CheckScale(job Job, n int32) error {
	if err := job.End(); err != nil {
		return fmt.Errorf("%w, so there is nothing to scale", err)
	}
	switch elastic := job.Spec().Elastic; {
	case elastic == nil:
		return fmt.Errorf("%s is not elastic, so it cannot be scaled while it runs: pause it, change its replicas with "+
			"kubectl edit, and resume it, or create a job with spec.elastic", job.Ref())
	case n < elastic.Least() || n > elastic.Most():
		return fmt.Errorf("%s can have %d to %s, as its spec.elastic specifies, and not %d",
			job.Ref(), elastic.Least(), report.Count(int(elastic.Most()), "replica"), n)
	}
	return nil
}

// AnnotationPreparing marks a job whose code is not in the cluster yet. Its value identifies the command that created
// the job. The command removes the annotation when it starts the job.
const AnnotationPreparing = "train.tensorstack.dev/preparing"

// LacksCode reports whether kubectl train run has created the job, and has not uploaded its code yet.
func (j Job) LacksCode() bool { return j.GetAnnotations()[AnnotationPreparing] != "" }

// CheckResume returns why a job cannot be resumed, or nil.
func CheckResume(job Job) error {
	if job.LacksCode() {
		return fmt.Errorf("%s does not have its code yet, which kubectl train run uploads: wait until it is uploaded. "+
			"If the command was killed, delete the job with kubectl train delete %s", job.Ref(), job.Typed())
	}
	if err := job.End(); err != nil {
		return fmt.Errorf("%w, so it cannot be resumed: create another job to train again", err)
	}
	return nil
}

// CheckDebug returns why nobody can debug a job, or nil.
func CheckDebug(job Job) error {
	if !job.Spec().RunMode.Debugging() {
		return fmt.Errorf("%s is not in debug mode, which can be chosen only when a job is created: create a copy of the "+
			"job with another name and spec.runMode.debug.enabled, as kubectl train debug --help shows", job.Ref())
	}
	return job.End()
}
