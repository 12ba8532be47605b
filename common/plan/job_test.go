package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/plan/view"
)

func TestHasMoreThan(t *testing.T) {
	t.Parallel()
	worker0, worker1 := pod("job-worker-0"), pod("job-worker-1")
	recreated := pod("job-worker-0")
	recreated.UID = "another"
	otherGroup := group(2)
	otherGroup.UID = "another"
	for name, tc := range map[string]struct {
		live, cached view.Observation
		want         bool
	}{
		"the same pods are not more": {
			live: seeing(worker0, worker1), cached: seeing(worker0, worker1),
		},
		"a cached pod that is gone is not more": {live: seeing(worker0), cached: seeing(worker0, worker1)},
		"a pod that the cache lacks is more": {
			live: seeing(worker0, worker1), cached: seeing(worker0), want: true,
		},
		"another pod of the same name is more":       {live: seeing(recreated), cached: seeing(worker0), want: true},
		"the same PodGroup is not more":              {live: grouped(group(2)), cached: grouped(group(2))},
		"a cached PodGroup that is gone is not more": {live: grouped(nil), cached: grouped(group(2))},
		"a PodGroup that the cache lacks is more":    {live: grouped(group(2)), cached: grouped(nil), want: true},
		"another PodGroup of the same name is more": {
			live: grouped(group(2)), cached: grouped(otherGroup), want: true,
		},
		"a PodGroup that the job does not control is not more": {live: grouped(group(2, foreignGroup)), cached: grouped(nil)},
		"no objects are not more than no objects": {
			live: view.Observation{}, cached: view.Observation{Pods: map[string]*corev1.Pod{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "HasMoreThan", tc.want, tc.live.HasMoreThan(tc.cached, "job-uid"))
		})
	}
}

func TestIsControlledBy(t *testing.T) {
	t.Parallel()
	owned := group(2)
	diff(t, "whether the job controls its PodGroup", true, view.IsControlledBy(owned, "job-uid"))
	diff(t, "whether another job controls the PodGroup", false, view.IsControlledBy(owned, "another"))
	diff(t, "whether the job controls a PodGroup without an owner", false,
		view.IsControlledBy(group(2, foreignGroup), "job-uid"))
}
