package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/frameworktest/kubelet"
)

// now is when every test looks at its job.
var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const mainContainer = "main"

// jobBuilder builds the snapshot of a job named "job". Its status grows by showing it pods, as in a cluster.
type jobBuilder struct{ snapshot }

// job returns a new job that nobody has looked at yet. Its first role leads. It restarts as one unless told otherwise.
func job(roles ...framework.Role) *jobBuilder {
	b := &jobBuilder{snapshot{
		Namespace:      "ns",
		Name:           "job",
		UID:            "job-uid",
		Generation:     1,
		Selector:       "batch.tensorstack.dev/job-name=job",
		ClusterDomain:  "cluster.local",
		Image:          "controller:test",
		MainContainers: []string{mainContainer},
		Spec:           framework.JobSpec{Roles: roles, DefaultRestartScope: batchv1beta1.RestartScopeJob},
	}}
	b.BuildPod = func(gang framework.Gang, member framework.Member, awaited []string, current attempt) (*corev1.Pod, error) {
		owner := metav1.OwnerReference{APIVersion: "test/v1", Kind: "TestJob", Name: b.Name, UID: b.UID, Controller: new(true)}
		return buildPod("TestJob", owner, gang, member, awaited, current, member.Role.Template.DeepCopy(), b.MainContainers)
	}
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
	b.BuildPod = func(framework.Gang, framework.Member, []string, attempt) (*corev1.Pod, error) {
		return nil, errors.New(message)
	}
	return b
}

// saw lets the job be reconciled some time before now, when these were its pods, and keeps the status that came of it.
func (b *jobBuilder) saw(before time.Duration, pods ...*corev1.Pod) *jobBuilder {
	b.Status = plan(b.snapshot, seeing(pods...), now.Add(-before)).Status
	return b
}

// sees reconciles the job now, with these pods.
func (b *jobBuilder) sees(pods ...*corev1.Pod) decision {
	return plan(b.snapshot, seeing(pods...), now)
}

// seeing is an observation of pods and the Service.
func seeing(pods ...*corev1.Pod) observation {
	seen := observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for _, p := range pods {
		seen.Pods[p.Name] = p
	}
	return seen
}

type podOption func(*corev1.Pod)

// pod returns a pod of the first attempt that waits for a node.
func pod(name string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: mainContainer}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	again(0)(p)
	for _, option := range options {
		option(p)
	}
	return p
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// again makes the pod one after so many restarts of all replicas together: another pod of the same name.
func again(times int32) podOption { return of(attempt{job: times}) }

// againAlone makes the pod one after so many restarts of its replica by itself.
func againAlone(times int32) podOption { return of(attempt{replica: times}) }

// of makes the pod one of an attempt.
func of(a attempt) podOption {
	return func(p *corev1.Pod) {
		p.Labels[batchv1beta1.LabelAttempt] = a.String()
		p.UID = types.UID(fmt.Sprintf("%s-uid-%s", p.Name, a))
	}
}

func onNode(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// running lets the main container run and be ready.
func running(p *corev1.Pod) { kubelet.Run(p, p.Spec.NodeName, now.Add(-time.Hour)) }

// exited ends the main container, and with it the pod, now.
func exited(code int32) podOption { return exitedAgo(code, 0) }

func exitedAgo(code int32, before time.Duration) podOption {
	return func(p *corev1.Pod) { kubelet.Exit(p, code, "", now.Add(-before)) }
}

// printed gives the main container that ended a last output.
func printed(output string) podOption {
	return func(p *corev1.Pod) {
		for i := range p.Status.ContainerStatuses {
			if ended := p.Status.ContainerStatuses[i].State.Terminated; ended != nil {
				ended.Message = output
			}
		}
	}
}

// sidecarRunning keeps the pod running by a second container, whatever the main container does.
func sidecarRunning(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
}

// deleting says that somebody asked for the pod's deletion, now.
func deleting(p *corev1.Pod) {
	p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	p.DeletionTimestamp = new(metav1.NewTime(now.Add(30 * time.Second)))
}

// disrupted says that Kubernetes itself ends the pod.
func disrupted(p *corev1.Pod) { kubelet.Preempt(p, now) }

// onLostNode says that the node of the pod does not answer.
func onLostNode(p *corev1.Pod) { kubelet.LoseNode(p, now) }

// rejected says that the kubelet refused the pod before it started any container.
func rejected(p *corev1.Pod) { kubelet.Reject(p, p.Spec.NodeName) }

func unreachable(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }

func unschedulable(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available",
	})
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

func summarize(d decision) summary {
	s := summary{
		Phase: d.Status.Phase, Reason: d.Status.Reason, Backoff: d.Status.BackoffCount, Attempt: d.Status.Attempt,
		Deletes: names(slices.Concat(d.Deletes, d.CleanUps)),
	}
	for _, f := range d.Status.Failures {
		counted := "free"
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
var withoutFacts = cmpopts.IgnoreFields(event{}, "Facts")

func diff(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, options...); d != "" {
		t.Errorf("unexpected %s (-want +got):\n%s", what, d)
	}
}
