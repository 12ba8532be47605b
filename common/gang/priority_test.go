package gang

import (
	"testing"

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
