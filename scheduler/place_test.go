package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestRequirementsOfAQueue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     []corev1.NodeSelectorRequirement
	}{
		"a queue without a nodeSelector has no requirements": {},
		"matchLabels of the queue become requirements, sorted by key": {
			selector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a", "pool": "training"}},
			want: []corev1.NodeSelectorRequirement{
				{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"training"}},
				{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
			},
		},
		"matchExpressions of the queue become requirements": {
			selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "gpu", Operator: metav1.LabelSelectorOpExists},
				{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a", "b"}},
			}},
			want: []corev1.NodeSelectorRequirement{
				{Key: "gpu", Operator: corev1.NodeSelectorOpExists},
				{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a", "b"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, requirementsOf(tc.selector)); diff != "" {
				t.Errorf("unexpected requirements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUngated(t *testing.T) {
	t.Parallel()
	long := newQueue(nil)
	long.Name = strings.Repeat("x", 64)
	for name, tc := range map[string]struct {
		queue *v1beta1.Queue
		want  map[string]string
	}{
		"a released pod has the label of its queue": {
			queue: newQueue(nil), want: map[string]string{v1beta1.LabelQueue: "lab"},
		},
		"a queue whose name is too long for a label sets none": {queue: long, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ungated(newPod(gated), tc.queue, "true")
			if diff := cmp.Diff(tc.want, got.Labels); diff != "" {
				t.Errorf("unexpected labels (-want +got):\n%s", diff)
			}
			if isGated(got) || !wasReleased(got) {
				t.Errorf("the pod must be released, but has gates %v and annotations %v", got.Spec.SchedulingGates, got.Annotations)
			}
		})
	}
}

func TestReleasedPodsAreConfinedToTheNodesOfTheirQueueAndKeepOtherGates(t *testing.T) {
	t.Parallel()
	queue := newQueue(func(s *v1beta1.QueueSpec) {
		s.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "training"}}
	})
	other := corev1.PodSchedulingGate{Name: "example.com/data"}
	got := ungated(newPod(gated, func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, other)
	}), queue, "true")
	if diff := cmp.Diff([]corev1.PodSchedulingGate{other}, got.Spec.SchedulingGates); diff != "" {
		t.Errorf("unexpected gates (-want +got):\n%s", diff)
	}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"training"}},
	}}}
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	if diff := cmp.Diff(want, got.Spec.Affinity); diff != "" {
		t.Errorf("unexpected affinity (-want +got):\n%s", diff)
	}
}
