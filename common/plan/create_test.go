package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// A decision builds only the first and the last pod of each type, because building all pods of a large job takes
// long. These two pods show whether the template is faulty for the leader or for the other replicas.
func TestDecideBuildsTheFirstAndTheLastPodOfEachType(t *testing.T) {
	t.Parallel()
	j := job(role("chief", 3), role("worker", 4), role("ps", 1))
	var built []string
	j.Wire = func(_ framework.Peers, member framework.Member, _ *corev1.PodTemplateSpec) error {
		built = append(built, member.Name)
		return nil
	}
	d := j.Sees()
	diff(t, "built pods",
		[]string{"job-chief-0", "job-chief-2", "job-worker-0", "job-worker-3", "job-ps-0"}, built)
	diff(t, "pods to create", 8, len(d.Creates))
}

func TestSizeIsThatOfTheLargestBuiltPodOfTheType(t *testing.T) {
	t.Parallel()
	const more = 10_000
	j := job(role("chief", 1), role("worker", 3))
	small := j.Sees().Creates[0].Size
	for _, large := range []string{"job-worker-0", "job-worker-2"} {
		t.Run(large, func(t *testing.T) {
			t.Parallel()
			j := job(role("chief", 1), role("worker", 3))
			j.Wire = func(_ framework.Peers, member framework.Member, template *corev1.PodTemplateSpec) error {
				if member.Name == large {
					template.Annotations = map[string]string{"more": strings.Repeat("x", more)}
				}
				return nil
			}
			for _, c := range j.Sees().Creates {
				if isLarge := c.Size > small+more/2; isLarge != (c.Type == "worker") || c.Size < small/2 {
					t.Errorf("the size of %s is %d bytes, and the size of a small pod is %d bytes", c.Name, c.Size, small)
				}
			}
		})
	}
}

func TestTemplateThatBecomesFaultyIsRefusedWhenThePodIsBuilt(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	var fault error
	j.Wire = func(framework.Peers, framework.Member, *corev1.PodTemplateSpec) error { return fault }
	d := j.Sees()
	fault = errors.New("no container")
	_, err := d.Creates[0].Build()
	var refused *report.RefusedError
	if !errors.As(err, &refused) || refused.Reason != "InvalidTemplate" || !errors.Is(refused.Err, fault) {
		t.Errorf("the error is %v, want a *report.RefusedError with the fault of the template", err)
	}
}

func TestCreatedPodsFollowTheRunMode(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	j.Spec.Roles[0].Template.Spec.InitContainers = []corev1.Container{{Name: "fetch"}}
	main := &j.Spec.Roles[0].Template.Spec.Containers[0]
	main.Command, main.LivenessProbe = []string{"python"}, &corev1.Probe{PeriodSeconds: 1}
	j.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{
		Enabled: true, ReplicaSpecs: []batchv1beta1.ReplicaDebugSet{{Type: "worker", SkipInitContainer: true}},
	}}
	var wired []string
	j.Wire = func(_ framework.Peers, _ framework.Member, template *corev1.PodTemplateSpec) error {
		wired = template.Spec.Containers[0].Command
		template.Spec.Containers = slices.Clone(template.Spec.Containers) // a framework may replace the slice
		return nil
	}
	pods := podsToCreate(j.Sees())
	diff(t, "init containers", 0, len(pods[0].Spec.InitContainers))
	got := pods[0].Spec.Containers[0]
	diff(t, "command that the framework sees", []string{"python"}, wired)
	diff(t, "command", []string{"sleep", "inf"}, got.Command)
	diff(t, "probe", (*corev1.Probe)(nil), got.LivenessProbe)
}

func TestTemplateWithoutContainersIsInvalid(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]*batchv1beta1.RunMode{
		"if the job runs normally": nil,
		"in debug mode":            {Debug: &batchv1beta1.DebugMode{Enabled: true}},
		"after a pause": {Pause: &batchv1beta1.PauseMode{
			ResumeSpecs: []batchv1beta1.ResumeSpec{{Type: "worker", Command: []string{"python3"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Refusing("the framework has wired the template")
			j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{}
			j.Spec.RunMode, j.Status.Pauses = mode, 1
			want := condition{"False", batchv1beta1.ReasonInvalidTemplate, `the template of type "worker" has no container`}
			diff(t, "Initialized", want, conditionOf(j.Sees(), batchv1beta1.ConditionInitialized))
		})
	}
}

func TestTemplateOfAJobThatReportsItsProgressIsChecked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		containers []corev1.Container
		want       condition
	}{
		"a template without a container is invalid": {
			want: condition{"False", batchv1beta1.ReasonInvalidTemplate, `the template of type "worker" has no container`},
		},
		"a template with a container of the reserved name is invalid": {
			containers: []corev1.Container{{Name: mainContainer}, {Name: framework.ProgressContainer}},
			want: condition{
				"False", batchv1beta1.ReasonInvalidTemplate,
				`the template of type "worker" has a container named "progress", which is reserved`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1)).Reporting(0, 0, "")
			j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: tc.containers}}
			d := j.Sees()
			diff(t, "Initialized", tc.want, conditionOf(d, batchv1beta1.ConditionInitialized))
			diff(t, "creations", 0, len(d.Creates))
		})
	}
}

// The controller reads the restarts in place from the pod of the leader.
func TestOnlyTheLeaderAnnouncesItsSupervisor(t *testing.T) {
	t.Parallel()
	onHosts := job(role("worker", 2)).CountingRestarts()
	onHosts.Spec.Roles[0].Template.Spec.HostNetwork = true
	hostPeers := framework.Peers{UID: onHosts.UID}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want map[string]string
	}{
		"the leader has the port": {
			job: job(role("worker", 2)).CountingRestarts(), want: map[string]string{"job-worker-0": "29498"},
		},
		"a leader with hostNetwork has a port of the job": {
			job: onHosts, want: map[string]string{"job-worker-0": fmt.Sprint(hostPeers.HostPort(1))},
		},
		"a job whose restarts are not counted has no port": {job: job(role("worker", 2)), want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.job.Spec.Roles[0].Template.Annotations = map[string]string{batchv1beta1.AnnotationSupervisorPort: "22"}
			got := map[string]string{}
			for _, p := range podsToCreate(tc.job.Sees()) {
				if port, ok := p.Annotations[batchv1beta1.AnnotationSupervisorPort]; ok {
					got[p.Name] = port
				}
			}
			diff(t, "ports", tc.want, got)
		})
	}
}

// A framework can add helper containers of its own, which use the image of the controller.
func TestPeersKnowTheImageOfTheController(t *testing.T) {
	t.Parallel()
	b := job(role("worker", 2))
	images := map[string]string{}
	b.Wire = func(peers framework.Peers, member framework.Member, _ *corev1.PodTemplateSpec) error {
		images[member.Name] = peers.Image
		return nil
	}
	podsToCreate(b.Sees())
	diff(t, "images", map[string]string{"job-worker-0": "controller:test", "job-worker-1": "controller:test"}, images)
}
