package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/report"
)

// The builders and checks of jobtest, by the names that the tests here use.
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
	group          = jobtest.Group
	withCondition  = jobtest.WithCondition
	admitted       = jobtest.Admitted
	edited         = jobtest.Edited
	foreignGroup   = jobtest.ForeignGroup
	deletingGroup  = jobtest.DeletingGroup
	elasticGroup   = jobtest.ElasticGroup
	gated          = jobtest.Gated
	board          = jobtest.Board
	foreignBoard   = jobtest.ForeignBoard
	suspended      = jobtest.Suspended
	deletingBoard  = jobtest.DeletingBoard
	failed         = jobtest.FailedBoard
	withReady      = jobtest.WithReady
	reported       = jobtest.Reported
	unchanged      = jobtest.Unchanged
	warning        = jobtest.Warning
	now            = jobtest.Now
)

const mainContainer = jobtest.MainContainer

type podOption = jobtest.PodOption

// jobBuilder builds the Job of a job named "job". Its status grows by showing it pods, as in a cluster.
type jobBuilder struct{ Job }

// job returns a new job that nobody has looked at yet. Its first role leads. It restarts as one unless told otherwise.
func job(roles ...framework.Role) *jobBuilder {
	b := &jobBuilder{Job{
		Namespace:      "ns",
		Name:           "job",
		UID:            "job-uid",
		Generation:     1,
		Kind:           schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"},
		Settings:       Settings{ClusterDomain: "cluster.local", Image: "controller:test"},
		MainContainers: []string{mainContainer},
		Spec:           framework.JobSpec{Roles: roles, DefaultRestartScope: batchv1beta1.RestartScopeJob},
	}}
	b.Wire = func(framework.Gang, framework.Member, *corev1.PodTemplateSpec) error { return nil }
	return b
}

// role returns a role of replicas that are restarted on failure.
func role(roleType string, replicas int32) framework.Role {
	return framework.Role{
		Type:          roleType,
		Replicas:      replicas,
		RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: mainContainer, Image: "training"}},
		}},
	}
}

func restarting(r framework.Role, restartPolicy batchv1beta1.RestartPolicy) framework.Role {
	r.RestartPolicy = restartPolicy
	return r
}

func (b *jobBuilder) scope(scope batchv1beta1.RestartScope) *jobBuilder {
	b.Spec.RunPolicy.RestartScope = scope
	return b
}

// window lets the reports of peers be waited for.
func (b *jobBuilder) window(window time.Duration) *jobBuilder {
	b.FailureWindow = window
	return b
}

// paused asks for the job to be paused, or no longer.
func (b *jobBuilder) paused(enabled bool) *jobBuilder {
	b.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: enabled}}
	return b
}

// elastic lets the job, of one role, scale from a least number of replicas to 8, and expects some now.
func (b *jobBuilder) elastic(least, expected int32) *jobBuilder {
	b.Spec.Elastic = &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(8)), ExpectedReplicas: &expected}
	b.Spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
	b.Spec.Roles[0].Replicas = expected
	return b
}

func (b *jobBuilder) backoffLimit(limit int32) *jobBuilder {
	b.Spec.RunPolicy.BackoffLimit = &limit
	return b
}

func (b *jobBuilder) deadline(seconds int64) *jobBuilder {
	b.Spec.RunPolicy.ActiveDeadlineSeconds = &seconds
	return b
}

func (b *jobBuilder) cleanUp(cleanUp batchv1beta1.CleanUpPolicy) *jobBuilder {
	b.Spec.RunPolicy.CleanUpPolicy = cleanUp
	return b
}

func (b *jobBuilder) peerGrace(grace time.Duration) *jobBuilder {
	b.PeerGrace = grace
	return b
}

// ttl is how long, in seconds, the job stays after its end.
func (b *jobBuilder) ttl(seconds int32) *jobBuilder {
	b.Spec.RunPolicy.TTLSecondsAfterFinished = &seconds
	return b
}

func (b *jobBuilder) nodeLostDelay(delay time.Duration) *jobBuilder {
	b.NodeLostDelay = delay
	return b
}

// refusing lets every pod be refused for its template.
func (b *jobBuilder) refusing(message string) *jobBuilder {
	b.Wire = func(framework.Gang, framework.Member, *corev1.PodTemplateSpec) error { return errors.New(message) }
	return b
}

// saw lets the job be reconciled some time before now, when these were its pods, and keeps the status that came of it.
func (b *jobBuilder) saw(before time.Duration, pods ...*corev1.Pod) *jobBuilder {
	b.Status = Decide(b.Job, seeing(pods...), now.Add(-before)).Status
	return b
}

// sees reconciles the job now, with these pods.
func (b *jobBuilder) sees(pods ...*corev1.Pod) Decision {
	return Decide(b.Job, seeing(pods...), now)
}

// seeing is an Observation of pods and the Service.
func seeing(pods ...*corev1.Pod) Observation {
	seen := Observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for _, p := range pods {
		seen.Pods[p.Name] = p
	}
	return seen
}

// summary is what most tests want to know of a decision.
type summary struct {
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

func summarize(d Decision) summary {
	s := summary{
		Phase: d.Status.Phase, Reason: d.Status.Reason, Backoff: d.Status.BackoffCount, Attempt: d.Status.Attempt,
		Deletes: names(slices.Concat(d.Deletes, d.CleanUps)),
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
	for _, p := range d.Creates {
		s.Creates = append(s.Creates, created(p.Name, p.Labels[batchv1beta1.LabelAttempt]))
	}
	if !d.WakeAt.IsZero() {
		s.WakeIn = d.WakeAt.Sub(now)
	}
	return s
}

// created is how a summary tells a pod of an attempt.
func created(name, attempt string) string { return fmt.Sprintf("%s (attempt %s)", name, attempt) }

func names(pods []*corev1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

// withoutFacts compares events as users see them. What the log says of them is compared where jobs live through what is told.
var withoutFacts = cmpopts.IgnoreFields(report.Event{}, "Facts")
