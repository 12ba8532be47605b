package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestChangesObjects(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0")}
	for name, tc := range map[string]struct {
		changes decide.Changes
		want    bool
	}{
		"only the status is written": {},
		"the job expires":            {changes: decide.Changes{DeleteJob: true}},
		"a pod is released":          {changes: decide.Changes{Releases: pods}, want: true},
		"a pod is deleted":           {changes: decide.Changes{Deletes: pods}, want: true},
		"a pod is cleaned up":        {changes: decide.Changes{CleanUps: pods}, want: true},
		"a pod is deleted by force":  {changes: decide.Changes{ForceDeletes: pods}, want: true},
		"a pod is created": {
			changes: decide.Changes{Creates: []view.Creation{{Name: "job-worker-0"}}}, want: true,
		},
		"the Service is created":                   {changes: decide.Changes{CreateService: true}, want: true},
		"the NetworkPolicy is created or restored": {changes: decide.Changes{EnsureNetworkPolicy: true}, want: true},
		"the PodGroup is deleted": {
			changes: decide.Changes{Admission: view.Change{Action: batchv1beta1.ActionDelete}}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "whether objects change", tc.want, tc.changes.ChangesObjects())
		})
	}
}

func TestForceDeletesAreSorted(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for _, name := range []string{"job-worker-3", "job-worker-1", "job-worker-0", "job-worker-2"} {
		p := pod(name, running, onLostNode, deleting)
		p.DeletionTimestamp = new(ago(0))
		pods = append(pods, p)
	}
	j := job(role("worker", 4)).LoseNodesAfter(1)
	diff(t, "pods", []string{"job-worker-0", "job-worker-1", "job-worker-2", "job-worker-3"},
		names(plan.Decide(j.Job, seeing(pods...), now.Add(1)).ForceDeletes))
}
