package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// weighted returns roles of the types a, b, ... with the given weights.
func weighted(weights ...int32) []framework.Role {
	var roles []framework.Role
	for i, weight := range weights {
		roles = append(roles, framework.Role{Type: string(rune('a' + i)), ScalingWeight: weight, Replicas: 7})
	}
	return roles
}

// master returns the role of the fixed type, which always has one replica.
func master(weight int32) framework.Role {
	return framework.Role{Type: "master", ScalingWeight: weight, Replicas: 7}
}

func replicasOf(roles []framework.Role) []int32 {
	var replicas []int32
	for _, r := range roles {
		replicas = append(replicas, r.Replicas)
	}
	return replicas
}

func TestScale(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		roles    []framework.Role
		expected int32
		want     []int32
	}{
		"a single role gets all replicas":                    {roles: weighted(1), expected: 5, want: []int32{5}},
		"roles with equal weights get equal shares":          {roles: weighted(2, 2), expected: 6, want: []int32{3, 3}},
		"roles share in proportion to their weights":         {roles: weighted(1, 3), expected: 8, want: []int32{2, 6}},
		"the largest remainder gets the remaining replica":   {roles: weighted(1, 2), expected: 4, want: []int32{1, 3}},
		"of equal remainders, the first role's is preferred": {roles: weighted(1, 1), expected: 3, want: []int32{2, 1}},
		"a role without a weight gets no replicas":           {roles: weighted(0, 1), expected: 3, want: []int32{0, 3}},
		"without weights, the first role gets all replicas":  {roles: weighted(0, 0), expected: 3, want: []int32{3, 0}},
		"the first role leads, however small its weight":     {roles: weighted(1, 9), expected: 2, want: []int32{1, 1}},
		"without expected replicas, no role leads": {
			roles: weighted(0, 1), expected: 0, want: []int32{0, 0},
		},
		"the first role that has a weight leads": {roles: weighted(0, 1, 9), expected: 2, want: []int32{0, 1, 1}},
		"the master keeps 1 of the expected replicas": {
			roles: append(weighted(1), master(100)), expected: 5, want: []int32{4, 1},
		},
		"one expected replica is the master": {
			roles: append(weighted(1, 1), master(0)), expected: 1, want: []int32{0, 0, 1},
		},
		"with a master, other roles can be empty": {
			roles: append(weighted(1, 9), master(1)), expected: 2, want: []int32{0, 1, 1},
		},
		"a job that only has a master does not scale": {
			roles: []framework.Role{master(1)}, expected: 5, want: []int32{1},
		},
		"the largest weights do not overflow": {
			roles: weighted(1<<31-1, 1<<31-1), expected: 2000, want: []int32{1000, 1000},
		},
		"the largest job is distributed completely": {
			roles: weighted(1, 1, 1), expected: 2000, want: []int32{667, 667, 666},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tc.roles)
			if diff := cmp.Diff(tc.want, replicasOf(Scale("master", tc.roles, tc.expected))); diff != "" {
				t.Errorf("unexpected replicas (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.roles); diff != "" {
				t.Errorf("the argument was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// With any weights, all replicas are distributed and the same role leads at every size. If there are two roles, neither
// loses a replica when the job grows.
func TestScaleHasItsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		roles := weighted(rapid.SliceOfN(rapid.Int32Range(0, 9), 1, 4).Draw(t, "weights")...)
		hasMaster := rapid.Bool().Draw(t, "master")
		if hasMaster {
			roles = slices.Insert(roles, rapid.IntRange(0, len(roles)).Draw(t, "place of the master"), master(3))
		}
		expected := rapid.Int32Range(1, 50).Draw(t, "expected")
		now, next := Scale("master", roles, expected), Scale("master", roles, expected+1)
		sum := int32(0)
		for _, role := range now {
			sum += role.Replicas
		}
		if sum != expected {
			t.Fatalf("%d of %d replicas are distributed: %v", sum, expected, replicasOf(now))
		}
		if a, b := framework.LeaderFirst("master", now)[0].Type, framework.LeaderFirst("master", next)[0].Type; a != b {
			t.Fatalf("role %s leads with %d replicas, but role %s with one more", a, expected, b)
		}
		if len(roles) > 2 || hasMaster {
			return
		}
		for i := range now {
			if next[i].Replicas < now[i].Replicas {
				t.Fatalf("role %d loses a replica when the job grows: %v, then %v", i, replicasOf(now), replicasOf(next))
			}
		}
	})
}

func TestGrow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		present []int32
		taken   []int32
		n       int32
		want    []int32
	}{
		"a new job begins at index 0":          {n: 3, want: []int32{0, 1, 2}},
		"present replicas stay":                {present: []int32{0, 1}, n: 3, want: []int32{0, 1, 2}},
		"the lowest free indices are added":    {present: []int32{0, 3}, n: 4, want: []int32{0, 1, 2, 3}},
		"an index that is not free is skipped": {present: []int32{0, 1}, taken: []int32{2}, n: 3, want: []int32{0, 1, 3}},
		"the role stays smaller if too few indices are free": {
			present: []int32{0, 1}, taken: []int32{2, 4}, n: 4, want: []int32{0, 1, 3},
		},
		"present replicas stay although their indices are not free": {
			present: []int32{0, 1}, taken: []int32{0, 1}, n: 2, want: []int32{0, 1},
		},
		"a role with more replicas does not shrink":    {present: []int32{0, 1, 4}, n: 1, want: []int32{0, 1, 4}},
		"a role without replicas stays empty":          {n: 0, want: []int32{}},
		"the indices stay below the limit, which is 5": {present: []int32{4}, n: 5, want: []int32{0, 1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free := func(index int32) bool { return !slices.Contains(tc.taken, index) }
			if diff := cmp.Diff(tc.want, Grow(tc.present, tc.n, 5, free)); diff != "" {
				t.Errorf("unexpected indices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordedIndices(t *testing.T) {
	t.Parallel()
	status := &batchv1beta1.JobStatus{Tasks: []batchv1beta1.TaskStatus{
		{Type: "worker", Replicas: []batchv1beta1.ReplicaStatus{{Name: "job-worker-0"}, {Name: "job-worker-12"}}},
		{Type: "ps", Replicas: []batchv1beta1.ReplicaStatus{{Name: "job-ps-1"}}},
	}}
	for roleType, want := range map[string][]int32{"worker": {0, 12}, "ps": {1}, "chief": {}} {
		if diff := cmp.Diff(want, RecordedIndices("job", roleType, status)); diff != "" {
			t.Errorf("unexpected indices of the type %s (-want +got):\n%s", roleType, diff)
		}
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	leader := Present{Index: 0, Running: true, Leads: true}
	running := func(index int32) Present { return Present{Index: index, Running: true} }
	pending := func(index int32) Present { return Present{Index: index} }
	for name, tc := range map[string]struct {
		present []Present
		n       int32
		want    []int32
	}{
		"no replica is removed if the number is right": {present: []Present{leader, running(1)}, n: 2, want: []int32{0, 1}},
		"no replica is removed if the role should grow": {
			present: []Present{leader, pending(1)}, n: 3, want: []int32{0, 1},
		},
		"the highest index is removed": {
			present: []Present{leader, running(1), running(2)}, n: 2, want: []int32{0, 1},
		},
		"a pending replica is removed before a running one": {
			present: []Present{leader, pending(1), running(2)}, n: 2, want: []int32{0, 2},
		},
		"the pending replica with the highest index is removed": {
			present: []Present{leader, pending(1), running(2), pending(3)}, n: 3, want: []int32{0, 1, 2},
		},
		"the order of the argument does not matter": {
			present: []Present{running(3), running(1), running(2), leader}, n: 3, want: []int32{0, 1, 2},
		},
		"a pending leader stays, whatever its index is": {
			present: []Present{running(0), {Index: 1, Leads: true}}, n: 1, want: []int32{1},
		},
		"a pending leader stays": {
			present: []Present{{Index: 0, Leads: true}, running(1), running(2)}, n: 1, want: []int32{0},
		},
		"the leader stays even if the role should have no replicas": {
			present: []Present{leader, running(1)}, n: 0, want: []int32{0},
		},
		"a role that does not lead can lose all replicas": {
			present: []Present{running(0), running(1)}, n: 0, want: []int32{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Shrink(tc.present, tc.n)); diff != "" {
				t.Errorf("unexpected indices (-want +got):\n%s", diff)
			}
		})
	}
}

// With three or more roles, the largest remainder method can take a replica from a role when the job grows by one. This
// is known as the Alabama paradox.
func ExampleScale() {
	for _, expected := range []int32{10, 11} {
		fmt.Println(expected, replicasOf(Scale("master", weighted(6, 6, 2), expected)))
	}
	// Output:
	// 10 [4 4 2]
	// 11 [5 5 1]
}
