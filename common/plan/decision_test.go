package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

func TestChangesObjects(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0")}
	for name, tc := range map[string]struct {
		decision plan.Decision
		want     bool
	}{
		"only the status is written": {
			decision: plan.Decision{Status: batchv1beta1.JobStatus{Phase: phaseRunning}, NeedsLiveRead: true},
		},
		"a pod is released":         {decision: plan.Decision{Releases: pods}, want: true},
		"a pod is deleted":          {decision: plan.Decision{Deletes: pods}, want: true},
		"a pod is cleaned up":       {decision: plan.Decision{CleanUps: pods}, want: true},
		"a pod is deleted by force": {decision: plan.Decision{ForceDeletes: pods}, want: true},
		"a pod is created": {
			decision: plan.Decision{Creates: []plan.Creation{{Name: "job-worker-0"}}}, want: true,
		},
		"the Service is created":                   {decision: plan.Decision{CreateService: true}, want: true},
		"the NetworkPolicy is created or restored": {decision: plan.Decision{EnsureNetworkPolicy: true}, want: true},
		"the PodGroup is deleted": {
			decision: plan.Decision{Admission: plan.Change{Action: batchv1beta1.ActionDelete}}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "whether objects change", tc.want, tc.decision.ChangesObjects())
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
