package gang

import (
	"cmp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestPriorityOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		priority *int32
		want     int32
	}{
		"a group without a priority has 10":    {want: 10},
		"a group has the priority of its spec": {priority: new(int32(70)), want: 70},
		"a group can have the lowest priority": {priority: new(int32(0)), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PriorityOf(schedulerv1beta1.PodGroupSpec{Priority: tc.priority}); got != tc.want {
				t.Errorf("the priority is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	group := func(namespace, name string, priority int32, created int64) *schedulerv1beta1.PodGroup {
		return &schedulerv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(created, 0)},
			Spec:       schedulerv1beta1.PodGroupSpec{Priority: &priority},
		}
	}
	order := []*schedulerv1beta1.PodGroup{
		group("vision", "z", 9, 60), group("vision", "y", 5, 0), group("vision-2", "a", 5, 60), group("vision", "a", 5, 60),
		group("vision", "b", 5, 60),
	}
	for i, a := range order {
		for j, b := range order {
			if got := Compare(a, b); got != cmp.Compare(i, j) {
				t.Errorf("comparing the groups %d and %d gives %d, want %d", i, j, got, cmp.Compare(i, j))
			}
		}
	}
}
