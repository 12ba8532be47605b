package jobtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Builder builds a view.Job named "job". The status of the job is the result of reconciles, as in a cluster.
type Builder struct{ view.Job }

// NewJob returns a job without a status and with the restart scope Job. The first role contains the leader.
func NewJob(roles ...framework.Role) *Builder {
	b := &Builder{view.Job{
		Namespace:      "ns",
		Name:           "job",
		UID:            "job-uid",
		Generation:     1,
		Kind:           schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"},
		Settings:       view.Settings{ClusterDomain: "cluster.local", Image: "controller:test"},
		MainContainers: []string{MainContainer},
		Spec:           framework.JobSpec{Roles: roles, DefaultRestartScope: batchv1beta1.RestartScopeJob},
	}}
	b.Wire = func(framework.Peers, framework.Member, *corev1.PodTemplateSpec) error { return nil }
	return b
}

// Role returns a role with the restart policy OnFailure.
func Role(roleType string, replicas int32) framework.Role {
	return framework.Role{
		Type:          roleType,
		Replicas:      replicas,
		RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: MainContainer, Image: "training"}},
		}},
	}
}

// Restarting returns the role with the given restart policy.
func Restarting(r framework.Role, restartPolicy batchv1beta1.RestartPolicy) framework.Role {
	r.RestartPolicy = restartPolicy
	return r
}

// Scope sets the restart scope.
func (b *Builder) Scope(scope batchv1beta1.RestartScope) *Builder {
	b.Spec.RunPolicy.RestartScope = scope
	return b
}

// Window sets how long the controller waits after a failure for failures of the peers.
func (b *Builder) Window(window time.Duration) *Builder {
	b.FailureWindow = window
	return b
}

// Paused sets whether the job is paused.
func (b *Builder) Paused(enabled bool) *Builder {
	b.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: enabled}}
	return b
}

// Elastic makes a job with one role elastic. It sets the minimum and the expected number of replicas. The maximum is 8.
func (b *Builder) Elastic(least, expected int32) *Builder {
	b.Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(8)), ExpectedReplicas: &expected,
	}
	b.Spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	b.Spec.Roles[0].Replicas = expected
	return b
}

// BackoffLimit sets the backoff limit.
func (b *Builder) BackoffLimit(limit int32) *Builder {
	b.Spec.RunPolicy.BackoffLimit = &limit
	return b
}

// Deadline sets the active deadline in seconds.
func (b *Builder) Deadline(seconds int64) *Builder {
	b.Spec.RunPolicy.ActiveDeadlineSeconds = &seconds
	return b
}

// Reporting makes the training report its progress. The deadlines progress and startup are in seconds, and 0 means no
// deadline.
func (b *Builder) Reporting(progress, startup int64, policy batchv1beta1.ProgressPolicy) *Builder {
	b.Spec.ReportsProgress = true
	b.Spec.RunPolicy.ProgressPolicy = policy
	b.Spec.RunPolicy.ProgressDeadlineSeconds, b.Spec.RunPolicy.StartupDeadlineSeconds = nil, nil
	if progress > 0 {
		b.Spec.RunPolicy.ProgressDeadlineSeconds = &progress
	}
	if startup > 0 {
		b.Spec.RunPolicy.StartupDeadlineSeconds = &startup
	}
	return b
}

// CountingRestarts makes the supervisor of the leader count restarts in place.
func (b *Builder) CountingRestarts() *Builder {
	b.Spec.RestartsInPlace = true
	return b
}

// CleanUp sets the clean-up policy.
func (b *Builder) CleanUp(cleanUp batchv1beta1.CleanUpPolicy) *Builder {
	b.Spec.RunPolicy.CleanUpPolicy = cleanUp
	return b
}

// GivePeers sets how long peers may run after the leader succeeded.
func (b *Builder) GivePeers(grace time.Duration) *Builder {
	b.PeerGrace = grace
	return b
}

// TTL sets how many seconds the job is kept after it finished.
func (b *Builder) TTL(seconds int32) *Builder {
	b.Spec.RunPolicy.TTLSecondsAfterFinished = &seconds
	return b
}

// LoseNodesAfter sets how long pods on lost nodes are kept.
func (b *Builder) LoseNodesAfter(delay time.Duration) *Builder {
	b.NodeLostDelay = delay
	return b
}

// AvoidingNodes makes new pods avoid bad nodes for the given time. A pod that avoids nodes can be unschedulable for 5
// minutes before the job stops avoiding one of these nodes.
func (b *Builder) AvoidingNodes(period time.Duration) *Builder {
	b.AvoidNodesFor, b.AvoidNodesPatience = period, 5*time.Minute
	return b
}

// Refusing makes the framework refuse every template with the given error message.
func (b *Builder) Refusing(message string) *Builder {
	b.Wire = func(framework.Peers, framework.Member, *corev1.PodTemplateSpec) error { return errors.New(message) }
	return b
}

// Saw reconciles the job with the given pods at a time before Now, and keeps the resulting status.
func (b *Builder) Saw(before time.Duration, pods ...*corev1.Pod) *Builder {
	b.Status = b.DecideAt(Now.Add(-before), Seeing(pods...)).Status
	return b
}

// Sees reconciles the job with the given pods at Now.
func (b *Builder) Sees(pods ...*corev1.Pod) plan.Decision {
	return b.DecideAt(Now, Seeing(pods...))
}

// SawIn reconciles the job with an observation one minute before Now, and keeps the resulting status.
func (b *Builder) SawIn(seen view.Observation) *Builder {
	b.Status = b.DecideAt(Now.Add(-time.Minute), seen).Status
	return b
}

// InQueue makes the replicas of the job a gang in the queue lab.
func (b *Builder) InQueue() *Builder {
	b.Spec.Scheduler = &batchv1beta1.SchedulePolicy{
		T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab", Priority: new(int32(10))},
	}
	b.DependentRetry = time.Minute
	return b
}

// DecideAt returns the decision about the job at a time. If the job is in a queue and the observation has no
// admission, DecideAt assumes that the job has no PodGroup.
func (b *Builder) DecideAt(now time.Time, seen view.Observation) plan.Decision {
	if b.Spec.T9kScheduler() != nil && seen.Admission == nil {
		seen.Admission = admission.PodGroup{}
	}
	return plan.Decide(b.Job, seen, now)
}

// Seeing returns an observation with the given pods and the Service.
func Seeing(pods ...*corev1.Pod) view.Observation {
	seen := view.Observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for _, p := range pods {
		seen.Pods[p.Name] = p
	}
	return seen
}

// Readings maps the name of a pod to a reading of its progress.
type Readings map[string]view.Reading

// Reading returns an observation with the given readings, pods and the Service.
func Reading(readings Readings, pods ...*corev1.Pod) view.Observation {
	seen := Seeing(pods...)
	seen.Readings = map[types.UID]view.Reading{}
	for _, p := range pods {
		if reading, ok := readings[p.Name]; ok {
			seen.Readings[p.UID] = reading
		}
	}
	return seen
}

// Step returns a reading at Now of a training with 1000 steps. The last report of the training has the given step and
// is as old as the given duration.
func Step(step int64, before time.Duration) view.Reading {
	percent := int32(step / 10) //nolint:gosec // it is at most 100
	return view.Reading{Time: Now, Silence: before, Status: &batchv1beta1.ProgressStatus{
		Summary: fmt.Sprintf("%d%% (%d/1000)", percent, step), Percent: &percent, Step: &step,
		TotalSteps: new(int64(1000)), LastReportTime: new(Ago(before)), Replica: "job-worker-0",
	}}
}

// NoReport returns a reading at a time before Now of a training that has reported nothing.
func NoReport(before time.Duration) view.Reading { return view.Reading{Time: Now.Add(-before)} }

// Grouped returns an observation with a PodGroup, pods and the Service. If g is nil, the job has no PodGroup.
func Grouped(g *schedulerv1beta1.PodGroup, pods ...*corev1.Pod) view.Observation {
	seen := Seeing(pods...)
	seen.Admission = admission.PodGroup{Object: g}
	return seen
}

// ErrNotInstalled is the error of a job in a cluster without the CRD of PodGroups.
var ErrNotInstalled = &report.RefusedError{
	Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New("podgroups are not installed"),
}

// Summary is the part of a decision that most tests check.
type Summary struct {
	Phase  batchv1beta1.JobPhase
	Reason string
	// Backoff is status.backoffCount, Attempt is status.attempt.
	Backoff, Attempt int32
	// Failures are the failures in the status: the replica, the exit code, and whether the failure counted towards the
	// backoff limit.
	Failures []string
	// Deletes are the names of the pods to delete.
	Deletes []string
	// Creates are the names and attempts of the pods to create.
	Creates []string
	// RequeueIn is the time from Now until the job is requeued. 0 means no requeue.
	RequeueIn time.Duration
}

// Summarize returns the summary of a decision.
func Summarize(d plan.Decision) Summary {
	s := Summary{
		Phase: d.Status.Phase, Reason: d.Status.Reason, Backoff: d.Status.BackoffCount, Attempt: d.Status.Attempt,
		Deletes: Names(slices.Concat(d.Deletes, d.CleanUps)),
	}
	for _, f := range d.Status.Failures {
		counted := "ignored"
		if f.Counted {
			counted = "counted"
		}
		code := "no exit code"
		if f.ExitCode != nil {
			code = fmt.Sprintf("exit code %d", *f.ExitCode)
		}
		s.Failures = append(s.Failures, fmt.Sprintf("%s: %s, %s", f.Replica, code, counted))
	}
	for _, p := range PodsToCreate(d) {
		s.Creates = append(s.Creates, Created(p.Name, p.Labels[batchv1beta1.LabelAttempt]))
	}
	if !d.RequeueAt.IsZero() {
		s.RequeueIn = d.RequeueAt.Sub(Now)
	}
	return s
}

// PodsToCreate returns the pods that a decision creates.
func PodsToCreate(d plan.Decision) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range d.Creates {
		pod, err := d.Creates[i].Build()
		if err != nil {
			panic(fmt.Sprintf("a template fails although Decide has checked it: %v", err))
		}
		pods = append(pods, pod)
	}
	return pods
}

// SameCreations compares creations by their sizes and by the pods that they build.
var SameCreations = cmp.Comparer(func(a, b view.Creation) bool {
	podA, errA := a.Build()
	podB, errB := b.Build()
	return a.Size == b.Size && cmp.Equal(podA, podB) && (errA == nil) == (errB == nil)
})

// Created returns the entry of a pod in Summary.Creates.
func Created(name, attempt string) string { return fmt.Sprintf("%s (attempt %s)", name, attempt) }

// Names returns the names of pods.
func Names(pods []*corev1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

// WithoutFacts compares events without their facts, which are only for the log. Some tests of package plan check the
// facts.
var WithoutFacts = cmpopts.IgnoreFields(report.Event{}, "Facts")
