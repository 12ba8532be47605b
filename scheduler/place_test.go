package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestConfine(t *testing.T) {
	t.Parallel()
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	term := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	pool := &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "training"}}
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		terms    []corev1.NodeSelectorTerm
		want     []corev1.NodeSelectorTerm
	}{
		"a queue without a nodeSelector leaves the pod alone": {},
		"a pod without terms gets one": {
			selector: pool, want: []corev1.NodeSelectorTerm{term(in("pool", "training"))},
		},
		"each term of the pod gets the requirements, since terms are alternatives": {
			selector: pool,
			terms:    []corev1.NodeSelectorTerm{term(in("zone", "a")), term(in("zone", "b"))},
			want: []corev1.NodeSelectorTerm{
				term(in("zone", "a"), in("pool", "training")), term(in("zone", "b"), in("pool", "training")),
			},
		},
		"a term with fields keeps them": {
			selector: pool,
			terms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "a")},
				MatchFields:      []corev1.NodeSelectorRequirement{in("metadata.name", "node-1")},
			}},
			want: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "a"), in("pool", "training")},
				MatchFields:      []corev1.NodeSelectorRequirement{in("metadata.name", "node-1")},
			}},
		},
		"matchExpressions of the queue become requirements": {
			selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "gpu", Operator: metav1.LabelSelectorOpExists},
				{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a", "b"}},
			}},
			want: []corev1.NodeSelectorTerm{term(
				corev1.NodeSelectorRequirement{Key: "gpu", Operator: corev1.NodeSelectorOpExists},
				corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a", "b"}},
			)},
		},
		"an empty term stays empty, since the API server rejects changes of it": {
			selector: pool, terms: []corev1.NodeSelectorTerm{term()}, want: []corev1.NodeSelectorTerm{term()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.PodSpec{}
			if tc.terms != nil {
				pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tc.terms},
				}}
			}
			confine(pod, requirementsOf(tc.selector))
			var got []corev1.NodeSelectorTerm
			if pod.Affinity != nil {
				got = pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected terms (-want +got):\n%s", diff)
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
			got := ungated(newPod(gated), tc.queue)
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
	}), queue)
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
