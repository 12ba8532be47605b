package affinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestRestrict(t *testing.T) {
	t.Parallel()
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	notOn := func(node string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node},
		}
	}
	expressions := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	fields := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: requirements}
	}
	pool := expressions(in("pool", "training"))
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: expressions(in("zone", "a"))}}
	together := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "zone"},
	}}
	for name, tc := range map[string]struct {
		affinity     *corev1.Affinity
		requirements corev1.NodeSelectorTerm
		want         *corev1.Affinity
	}{
		"empty requirements leave a pod without an affinity alone": {},
		"empty requirements leave the terms of a pod alone": {
			affinity: required(expressions(in("zone", "a"))), want: required(expressions(in("zone", "a"))),
		},
		"a pod without terms gets one": {requirements: pool, want: required(pool)},
		"requirements on fields are enough to restrict a pod": {
			requirements: fields(notOn("node-1")), want: required(fields(notOn("node-1"))),
		},
		"a pod with another affinity keeps it": {
			affinity: &corev1.Affinity{PodAffinity: together}, requirements: pool,
			want: &corev1.Affinity{PodAffinity: together, NodeAffinity: required(pool).NodeAffinity},
		},
		"a pod that prefers nodes still prefers them": {
			affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			}},
			requirements: pool,
			want: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{pool},
				},
				PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			}},
		},
		"each term of the pod gets the requirements, since terms are alternatives": {
			affinity: required(expressions(in("zone", "a")), expressions(in("zone", "b"))), requirements: pool,
			want: required(
				expressions(in("zone", "a"), in("pool", "training")), expressions(in("zone", "b"), in("pool", "training")),
			),
		},
		"each term of the pod gets all requirements on fields": {
			affinity:     required(expressions(in("zone", "a")), fields(in("metadata.name", "node-3"))),
			requirements: fields(notOn("node-1"), notOn("node-2")),
			want: required(
				corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "a")},
					MatchFields:      []corev1.NodeSelectorRequirement{notOn("node-1"), notOn("node-2")},
				},
				fields(in("metadata.name", "node-3"), notOn("node-1"), notOn("node-2")),
			),
		},
		"a term with fields keeps them": {
			affinity: required(corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "a")},
				MatchFields:      []corev1.NodeSelectorRequirement{in("metadata.name", "node-1")},
			}),
			requirements: pool,
			want: required(corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "a"), in("pool", "training")},
				MatchFields:      []corev1.NodeSelectorRequirement{in("metadata.name", "node-1")},
			}),
		},
		"an empty term stays empty, since the API server rejects changes of it": {
			affinity: required(expressions()), requirements: pool, want: required(expressions()),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.PodSpec{Affinity: tc.affinity}
			Restrict(pod, tc.requirements)
			if diff := cmp.Diff(tc.want, pod.Affinity); diff != "" {
				t.Errorf("unexpected affinity (-want +got):\n%s", diff)
			}
		})
	}
}
