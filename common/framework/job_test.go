package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeaderFirst(t *testing.T) {
	t.Parallel()
	// roles by type; a "-" before the type says that it has no replicas.
	roles := func(types ...string) []Role {
		list := []Role{}
		for _, roleType := range types {
			if roleType[0] == '-' {
				list = append(list, Role{Type: roleType[1:]})
			} else {
				list = append(list, Role{Type: roleType, Replicas: 1})
			}
		}
		return list
	}
	for name, tc := range map[string]struct{ roles, want []Role }{
		"the leader's type is first already": {roles("master", "worker"), roles("master", "worker")},
		"it leads wherever it stands": {
			roles("worker", "ps", "master", "node"), roles("master", "worker", "ps", "node"),
		},
		"without it the first leads":               {roles("worker", "ps"), roles("worker", "ps")},
		"without a replica of it the first leads":  {roles("worker", "-master"), roles("worker", "-master")},
		"the first that has a replica leads":       {roles("-a", "-b", "c", "d"), roles("c", "-a", "-b", "d")},
		"where nobody has a replica nothing moves": {roles("-worker", "-master"), roles("-worker", "-master")},
		"no role": {roles(), roles()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]Role{}, tc.roles...)
			if diff := cmp.Diff(tc.want, LeaderFirst("master", tc.roles)); diff != "" {
				t.Errorf("unexpected order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.roles); diff != "" {
				t.Errorf("the roles given were changed (-before +after):\n%s", diff)
			}
		})
	}
}
