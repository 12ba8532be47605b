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

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// Builder builds the Job of a job named "job". Its status grows by showing it pods, as in a cluster.
type Builder struct{ plan.Job }

// NewJob returns a new job without a status. Its first role leads. It restarts as one unless told otherwise.
func NewJob(roles ...framework.Role) *Builder {
	b := &Builder{plan.Job{
		Namespace:      "ns",
		Name:           "job",
		UID:            "job-uid",
		Generation:     1,
		Kind:           schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"},
		Settings:       plan.Settings{ClusterDomain: "cluster.local", Image: "controller:test"},
		MainContainers: []string{MainContainer},
		Spec:           framework.JobSpec{Roles: roles, DefaultRestartScope: batchv1beta1.RestartScopeJob},
	}}
	b.Wire = func(framework.Gang, framework.Member, *corev1.PodTemplateSpec) error { return nil }
	return b
}

// Role returns a role of replicas that are restarted on failure.
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

// Restarting returns a role with another restart policy.
func Restarting(r framework.Role, restartPolicy batchv1beta1.RestartPolicy) framework.Role {
	r.RestartPolicy = restartPolicy
	return r
}

// Scope sets what restarts when a replica fails.
func (b *Builder) Scope(scope batchv1beta1.RestartScope) *Builder {
	b.Spec.RunPolicy.RestartScope = scope
	return b
}

// Window sets how long the reports of peers are waited for.
func (b *Builder) Window(window time.Duration) *Builder {
	b.FailureWindow = window
	return b
}

// Paused sets whether the user asks for a pause.
func (b *Builder) Paused(enabled bool) *Builder {
	b.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: enabled}}
	return b
}

// Elastic lets the job, of one role, scale from a least number of replicas to 8, and expects some of them now.
func (b *Builder) Elastic(least, expected int32) *Builder {
	b.Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(8)), ExpectedReplicas: &expected,
	}
	b.Spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	b.Spec.Roles[0].Replicas = expected
	return b
}

// BackoffLimit sets how many failures the job survives.
func (b *Builder) BackoffLimit(limit int32) *Builder {
	b.Spec.RunPolicy.BackoffLimit = &limit
	return b
}

// Deadline sets how many seconds after its start the job must have finished.
func (b *Builder) Deadline(seconds int64) *Builder {
	b.Spec.RunPolicy.ActiveDeadlineSeconds = &seconds
	return b
}

// CleanUp sets which pods are deleted after the end.
func (b *Builder) CleanUp(cleanUp batchv1beta1.CleanUpPolicy) *Builder {
	b.Spec.RunPolicy.CleanUpPolicy = cleanUp
	return b
}

// GivePeers sets how long the peers of a leader that succeeded may take to end.
func (b *Builder) GivePeers(grace time.Duration) *Builder {
	b.PeerGrace = grace
	return b
}

// TTL is how long, in seconds, the job stays after its end.
func (b *Builder) TTL(seconds int32) *Builder {
	b.Spec.RunPolicy.TTLSecondsAfterFinished = &seconds
	return b
}

// LoseNodesAfter sets how long the pods of lost nodes stay.
func (b *Builder) LoseNodesAfter(delay time.Duration) *Builder {
	b.NodeLostDelay = delay
	return b
}

// Refusing makes the framework refuse every template, with a message.
func (b *Builder) Refusing(message string) *Builder {
	b.Wire = func(framework.Gang, framework.Member, *corev1.PodTemplateSpec) error { return errors.New(message) }
	return b
}

// Saw lets the job be reconciled some time before Now, when these were its pods, and keeps the status that came of it.
func (b *Builder) Saw(before time.Duration, pods ...*corev1.Pod) *Builder {
	b.Status = b.DecideAt(Now.Add(-before), Seeing(pods...)).Status
	return b
}

// Sees reconciles the job at Now, with these pods.
func (b *Builder) Sees(pods ...*corev1.Pod) plan.Decision {
	return b.DecideAt(Now, Seeing(pods...))
}

// SawIn reconciles the job a minute before Now on an observation, and keeps the status that came of it.
func (b *Builder) SawIn(seen plan.Observation) *Builder {
	b.Status = b.DecideAt(Now.Add(-time.Minute), seen).Status
	return b
}

// InQueue makes the job schedule its replicas as a gang, from queue lab.
func (b *Builder) InQueue() *Builder {
	b.Spec.Scheduler = &batchv1beta1.SchedulePolicy{
		T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab", Priority: new(int32(10))},
	}
	b.DependentRetry = time.Minute
	return b
}

// DecideAt decides about the job at a time. A job in a queue has no PodGroup unless one is seen.
func (b *Builder) DecideAt(now time.Time, seen plan.Observation) plan.Decision {
	if b.Spec.T9kScheduler() != nil && seen.Admission == nil {
		seen.Admission = dependents.PodGroup{}
	}
	return plan.Decide(b.Job, seen, now)
}

// Seeing returns an observation of pods and the Service.
func Seeing(pods ...*corev1.Pod) plan.Observation {
	seen := plan.Observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for _, p := range pods {
		seen.Pods[p.Name] = p
	}
	return seen
}

// Grouped returns an observation of a PodGroup, nil for none, and pods.
func Grouped(g *schedulerv1beta1.PodGroup, pods ...*corev1.Pod) plan.Observation {
	seen := Seeing(pods...)
	seen.Admission = dependents.PodGroup{Object: g}
	return seen
}

// ErrNotInstalled is the problem of a job whose PodGroup cannot be had.
var ErrNotInstalled = &report.RefusedError{
	Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New("podgroups are not installed"),
}

// Summary is what most tests want to know of a decision.
type Summary struct {
	Phase  batchv1beta1.JobPhase
	Reason string
	// Backoff is status.backoffCount, Attempt is status.attempt.
	Backoff, Attempt int32
	// Failures of the status: replica, exit code, and whether it counted.
	Failures []string
	// Deletes and Creates are the pods, created ones with their attempt.
	Deletes, Creates []string
	// WakeIn is how long from now the job sleeps; 0 is for ever.
	WakeIn time.Duration
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
	if !d.WakeAt.IsZero() {
		s.WakeIn = d.WakeAt.Sub(Now)
	}
	return s
}

// PodsToCreate returns the pods that a decision creates.
func PodsToCreate(d plan.Decision) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range d.Creates {
		pod, err := d.Creates[i].Build()
		if err != nil {
			panic(fmt.Sprintf("Decide has checked the templates, but: %v", err))
		}
		pods = append(pods, pod)
	}
	return pods
}

// SameCreations compares pods to create by what is built.
var SameCreations = cmp.Comparer(func(a, b plan.Creation) bool {
	podA, errA := a.Build()
	podB, errB := b.Build()
	return a.Size == b.Size && cmp.Equal(podA, podB) && (errA == nil) == (errB == nil)
})

// Created is how a summary tells a pod of an attempt.
func Created(name, attempt string) string { return fmt.Sprintf("%s (attempt %s)", name, attempt) }

// Names returns the names of pods.
func Names(pods []*corev1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

// WithoutFacts compares events as users see them. The kit checks the facts, which are for the log.
var WithoutFacts = cmpopts.IgnoreFields(report.Event{}, "Facts")
