package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestANodeIsAvoidedAgainIfItFailsJustWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	createdAgo := func(before time.Duration) podOption {
		return func(p *corev1.Pod) { p.CreationTimestamp = ago(before) }
	}
	j := job(role("worker", 2)).Scope(batchv1beta1.RestartScopeReplica)
	j.AvoidNodesFor = time.Hour
	leader := pod("job-worker-0", onNode("node-0"), running)
	j.Saw(time.Hour, leader, pod("job-worker-1", onNode("node-1"), createdAgo(80*time.Minute), running))
	j.Status.Failures = []batchv1beta1.ReplicaFailure{
		{Replica: "job-worker-1", Node: "node-1", Reason: batchv1beta1.ReasonNodeLost, Time: ago(90 * time.Minute)},
	}
	j.Status.AvoidedNodes = []batchv1beta1.AvoidedNode{
		{Name: "node-1", Reason: batchv1beta1.ReasonNodeLost, Since: ago(time.Hour), Until: ago(0)},
	}
	d := j.Sees(leader,
		pod("job-worker-1", onNode("node-1"), createdAgo(80*time.Minute), running, onLostNode, deleting))
	diff(t, "avoided nodes", []batchv1beta1.AvoidedNode{
		{Name: "node-1", Reason: batchv1beta1.ReasonNodeLost, Since: ago(0), Until: ago(-time.Hour)},
	}, d.Status.AvoidedNodes)
	var reasons []string
	for _, event := range d.Events {
		reasons = append(reasons, event.Reason)
	}
	diff(t, "events", []string{
		batchv1beta1.EventNodeAllowed, batchv1beta1.EventNodeAvoided, batchv1beta1.EventRestarting,
	}, reasons)
}
