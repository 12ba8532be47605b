package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeaderFirst(t *testing.T) {
	t.Parallel()
	// roles returns a role for each type. A type that begins with "-" has no replicas.
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
		"a leader type that is already first stays": {roles("master", "worker"), roles("master", "worker")},
		"the leader type moves to the front": {
			roles("worker", "ps", "master", "node"), roles("master", "worker", "ps", "node"),
		},
		"without the leader type, the first role leads": {roles("worker", "ps"), roles("worker", "ps")},
		"a leader type without replicas does not lead":  {roles("worker", "-master"), roles("worker", "-master")},
		"the first role that has a replica leads":       {roles("-a", "-b", "c", "d"), roles("c", "-a", "-b", "d")},
		"without replicas the order stays":              {roles("-worker", "-master"), roles("-worker", "-master")},
		"an empty list stays empty":                     {roles(), roles()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]Role{}, tc.roles...)
			if diff := cmp.Diff(tc.want, LeaderFirst("master", tc.roles)); diff != "" {
				t.Errorf("unexpected order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.roles); diff != "" {
				t.Errorf("the argument was changed (-before +after):\n%s", diff)
			}
		})
	}
}
