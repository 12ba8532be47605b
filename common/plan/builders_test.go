package plan_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
)

// These are short names for the builders and checks of jobtest.
var (
	diff           = jobtest.Diff
	pod            = jobtest.Pod
	ago            = jobtest.Ago
	again          = jobtest.Again
	againAlone     = jobtest.AgainAlone
	of             = jobtest.Of
	onNode         = jobtest.OnNode
	running        = jobtest.Running
	exited         = jobtest.Exited
	exitedAgo      = jobtest.ExitedAgo
	printed        = jobtest.Printed
	sidecarRunning = jobtest.SidecarRunning
	deleting       = jobtest.Deleting
	disrupted      = jobtest.Disrupted
	onLostNode     = jobtest.OnLostNode
	rejected       = jobtest.Rejected
	unreachable    = jobtest.Unreachable
	unschedulable  = jobtest.Unschedulable
	createdAgo     = jobtest.CreatedAgo
	withBadDevice  = jobtest.WithUnhealthyDevice
	avoiding       = jobtest.Avoiding
	group          = jobtest.Group
	withCondition  = jobtest.WithCondition
	admitted       = jobtest.Admitted
	edited         = jobtest.Edited
	foreignGroup   = jobtest.ForeignGroup
	deletingGroup  = jobtest.DeletingGroup
	now            = jobtest.Now
	job            = jobtest.NewJob
	role           = jobtest.Role
	restarting     = jobtest.Restarting
	seeing         = jobtest.Seeing
	grouped        = jobtest.Grouped
	reading        = jobtest.Reading
	step           = jobtest.Step
	noReport       = jobtest.NoReport
	summarize      = jobtest.Summarize
	created        = jobtest.Created
	names          = jobtest.Names
	podsToCreate   = jobtest.PodsToCreate
	sameCreations  = jobtest.SameCreations
	withoutFacts   = jobtest.WithoutFacts
)

const mainContainer = jobtest.MainContainer

// untilOverdue is the time from now until a job reports that its restart waits for a pod that is being deleted.
const untilOverdue = 90 * time.Second

const (
	scopeJob        = batchv1beta1.RestartScopeJob
	scopeReplica    = batchv1beta1.RestartScopeReplica
	scopeRendezvous = batchv1beta1.RestartScopeRendezvous
)

type (
	podOption  = jobtest.PodOption
	jobBuilder = jobtest.Builder
	summary    = jobtest.Summary
	readings   = jobtest.Readings
)

// condition has the fields of a condition that the tests compare.
type condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// decided returns a decision that only has a status.
func decided(s batchv1beta1.JobStatus) plan.Decision {
	return plan.Decision{Rendering: status.Rendering{Status: s}}
}

// actedOn returns a decision without the facts that the controller does not act on.
func actedOn(d plan.Decision) plan.Decision {
	f := d.Facts
	d.Facts = decide.Facts{
		Changes: f.Changes, NeedsLiveRead: f.NeedsLiveRead, Unclear: f.Unclear, Restarts: f.Restarts, Stall: f.Stall,
		RequeueAt: f.RequeueAt, Urgent: f.Urgent, AddedInPlace: f.AddedInPlace,
	}
	return d
}

func conditionOf(d plan.Decision, conditionType string) condition {
	c := ptr.Deref(meta.FindStatusCondition(d.Status.Conditions, conditionType), metav1.Condition{})
	return condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// restartsOf returns the restart count of each role that has restarts.
func restartsOf(d plan.Decision) map[string]int32 {
	restarts := map[string]int32{}
	for _, task := range d.Status.Tasks {
		if task.RestartCount > 0 {
			restarts[task.Type] = task.RestartCount
		}
	}
	return restarts
}

// scaling returns an elastic job of three replicas that had the given pods a minute ago.
func scaling(pods ...*corev1.Pod) *jobBuilder {
	return job(role("worker", 0)).Elastic(1, 3).Saw(time.Minute).Saw(time.Minute, pods...)
}

// listed returns the names of the replicas that a status lists.
func listed(status batchv1beta1.JobStatus) []string {
	var names []string
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			names = append(names, r.Name)
		}
	}
	return names
}

// Messages about a job with a progress deadline of 600 s and a startup deadline of 300 s.
const (
	stalledAt42 = "no other step was reported for runPolicy.progressDeadlineSeconds (600 s) after 42% (420/1000) at " +
		"2026-03-01T11:50:00Z"
	neverReported = "nothing was reported for runPolicy.startupDeadlineSeconds (300 s) since the job runs"
	startedAgain  = "nothing was reported for runPolicy.startupDeadlineSeconds (300 s) after the training started " +
		"again at 2026-03-01T11:55:00Z"
	isOnTime = "the training is within its deadlines again"
)

// stall is the part of a decision that depends on stalls.
type stall struct {
	// Reaction is how the controller reacts to a new stall.
	Reaction batchv1beta1.ProgressPolicy
	Stalled  condition
	// Events has the type, the reason and the message of each event.
	Events []string
	// Backoff is status.backoffCount.
	Backoff int32
	// RequeueIn is the time from now until the job is requeued. 0 means no requeue.
	RequeueIn time.Duration
}

func stallOf(d plan.Decision) stall {
	s := stall{
		Reaction: d.Stall.Reaction(), Stalled: conditionOf(d, batchv1beta1.ConditionStalled), Backoff: d.Status.BackoffCount,
		RequeueIn: summarize(d).RequeueIn,
	}
	for _, e := range d.Events {
		s.Events = append(s.Events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
	}
	return s
}

// isStalled returns the condition Stalled of a stalled job. isNot returns the condition of a job that is no longer
// stalled.
func isStalled(message string) condition {
	return condition{"True", batchv1beta1.ReasonNoProgress, message}
}

func isNot(reason, message string) condition { return condition{"False", reason, message} }

// percent returns a reading of a training that has reported a percentage. The parameter before is how long ago the
// training reported it.
func percent(n int32, before time.Duration) view.Reading {
	return changed(step(0, before), func(p *batchv1beta1.ProgressStatus) {
		*p = batchv1beta1.ProgressStatus{Percent: &n, LastReportTime: p.LastReportTime}
	})
}

// final returns the reading, marked as the last one of a receiver that has ended.
func final(r view.Reading) view.Reading {
	r.IsFinal = true
	return r
}

// leaderReads returns an observation of two running workers with a reading of the leader.
func leaderReads(r view.Reading) view.Observation {
	return reading(readings{"job-worker-0": r}, runningPods()...)
}

// readBefore returns the reading with an earlier time. The parameter before is the difference.
func readBefore(r view.Reading, before time.Duration) view.Reading {
	r.Time = r.Time.Add(-before)
	return r
}

// stalled returns a job with the policy Notify. Its stall began a minute ago.
func stalled() *jobBuilder {
	r := step(420, 10*time.Minute-time.Minute)
	r.Time, r.Silence = now.Add(-time.Minute), 10*time.Minute
	return reports(600, 300, notify).SawIn(leaderReads(r))
}

// anywhere changes a job so that any of its replicas might report progress.
func anywhere(j *jobBuilder) *jobBuilder {
	j.Spec.FirstProcess = framework.FirstProcessAnywhere
	return j
}

// started returns a job that reports progress. The parameter before is how long ago the job began to run.
func started(policy batchv1beta1.ProgressPolicy, before time.Duration) *jobBuilder {
	return job(role("worker", 2)).Reporting(600, 300, policy).Saw(before, runningPods()...)
}

// attemptLabel returns the value of the attempt label of a pod, for the given attempts of its job and of its replica.
func attemptLabel(job, replica int32) string {
	return view.Attempt{Job: job, Replica: replica}.String()
}
