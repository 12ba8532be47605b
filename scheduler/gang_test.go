package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestNeed(t *testing.T) {
	t.Parallel()
	worker, master, other := newPod(withRole("worker")), newPod(withRole("master")), newPod()
	roles := []v1beta1.PodGroupRole{{Name: "master", MinMember: 1}, {Name: "worker", MinMember: 2}}
	for name, tc := range map[string]struct {
		min     int32
		roles   []v1beta1.PodGroupRole
		present []*corev1.Pod
		want    need
		wantMet bool
	}{
		"a group without roles needs minMember pods": {min: 3, want: need{Min: 3, Roles: map[string]int{}}},
		"a group with minMember 0 needs no pods": {
			roles: []v1beta1.PodGroupRole{{Name: "master"}}, want: need{Roles: map[string]int{"master": 0}}, wantMet: true,
		},
		"a group needs at least the sum of its roles": {
			min: 1, roles: roles, want: need{Min: 3, Roles: map[string]int{"master": 1, "worker": 2}},
		},
		"a group can need more pods than the sum of its roles": {
			min: 5, roles: roles, want: need{Min: 5, Roles: map[string]int{"master": 1, "worker": 2}},
		},
		"a pod counts for its role and for the total": {
			roles: roles, present: []*corev1.Pod{worker}, want: need{Min: 2, Roles: map[string]int{"master": 1, "worker": 1}},
		},
		"the need is not met if pods of one role are missing": {
			roles: roles, present: []*corev1.Pod{worker, worker, worker, other},
			want: need{Min: 0, Roles: map[string]int{"master": 1, "worker": 0}},
		},
		"the need is met by enough pods of each role": {
			roles: roles, present: []*corev1.Pod{worker, worker, master},
			want: need{Min: 0, Roles: map[string]int{"master": 0, "worker": 0}}, wantMet: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := needOf(v1beta1.PodGroupSpec{MinMember: tc.min, Roles: tc.roles}).without(tc.present)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected need (-want +got):\n%s", diff)
			}
			if got.isMet() != tc.wantMet {
				t.Errorf("isMet returned %t, want %t", got.isMet(), tc.wantMet)
			}
		})
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	named := func(name, role string) *corev1.Pod {
		pod := newPod(withRole(role))
		pod.Name = name
		return pod
	}
	pods := []*corev1.Pod{
		named("x", ""), named("w0", "worker"), named("w1", "worker"), named("w2", "worker"), named("m", "master"),
	}
	for name, tc := range map[string]struct {
		need       need
		want, left []string
	}{
		"no pods are picked if none are needed": {left: []string{"x", "w0", "w1", "w2", "m"}},
		"the first pods are picked if there are no roles": {
			need: need{Min: 2}, want: []string{"x", "w0"}, left: []string{"w1", "w2", "m"},
		},
		"pods of needed roles are picked first, no more than each role needs": {
			need: need{Min: 2, Roles: map[string]int{"master": 1, "worker": 1}},
			want: []string{"w0", "m"}, left: []string{"x", "w1", "w2"},
		},
		"the first of the other pods are picked for the rest of the total": {
			need: need{Min: 3, Roles: map[string]int{"worker": 1}},
			want: []string{"w0", "x", "w1"}, left: []string{"w2", "m"},
		},
		"a role that needs no pods has no precedence": {
			need: need{Min: 1, Roles: map[string]int{"worker": 0}}, want: []string{"x"}, left: []string{"w0", "w1", "w2", "m"},
		},
		"no pods are picked if there are too few of a role": {
			need: need{Min: 2, Roles: map[string]int{"master": 2}}, left: []string{"x", "w0", "w1", "w2", "m"},
		},
		"no pods are picked if there are too few in total": {need: need{Min: 6}, left: []string{"x", "w0", "w1", "w2", "m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			picked, others := tc.need.pick(pods)
			if diff := cmp.Diff(tc.want, podNames(picked)); diff != "" {
				t.Errorf("unexpected picked pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, podNames(others)); diff != "" {
				t.Errorf("unexpected other pods (-want +got):\n%s", diff)
			}
		})
	}
}

func podNames(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
