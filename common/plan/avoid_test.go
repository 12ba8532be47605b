package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// nodeFault returns a recorded failure that a node caused. The parameter before is how long ago the failure happened.
func nodeFault(node, reason string, before time.Duration) batchv1beta1.ReplicaFailure {
	return batchv1beta1.ReplicaFailure{Replica: "job-worker-0", Node: node, Reason: reason, Time: ago(before)}
}

// avoidedNode returns an entry of status.avoidedNodes. The parameter since is how long ago the job began to avoid the
// node. The job avoids the node for an hour in all.
func avoidedNode(name string, since time.Duration) batchv1beta1.AvoidedNode {
	return batchv1beta1.AvoidedNode{
		Name: name, Reason: batchv1beta1.ReasonNodeLost, Since: ago(since), Until: ago(since - time.Hour),
	}
}

// until returns the entry with another end. The parameter in is the time from now until the job stops avoiding the
// node.
func until(node batchv1beta1.AvoidedNode, in time.Duration) batchv1beta1.AvoidedNode {
	node.Until = ago(-in)
	return node
}

// avoider returns a job of one worker that avoids bad nodes. The job is starting, and avoids the given nodes.
func avoider(nodes ...batchv1beta1.AvoidedNode) *jobBuilder {
	j := job(role("worker", 1)).AvoidingNodes(time.Hour).Saw(2*time.Hour, pod("job-worker-0"))
	j.Status.AvoidedNodes = nodes
	return j
}

// failedBefore returns an avoider with recorded failures.
func failedBefore(failures ...batchv1beta1.ReplicaFailure) *jobBuilder {
	j := avoider()
	j.Status.Failures = failures
	return j
}

func namesOfAvoided(d plan.Decision) []string {
	var names []string
	for _, node := range d.Status.AvoidedNodes {
		names = append(names, node.Name)
	}
	return names
}

func TestNodeIsAvoidedAfterTwoFailures(t *testing.T) {
	t.Parallel()
	lostBefore := nodeFault("a", batchv1beta1.ReasonNodeLost, 10*time.Minute)
	bad := pod("job-worker-0", createdAgo(5*time.Minute), onNode("a"), running, withBadDevice("gpu-1"))
	withPolicy := func(j *jobBuilder, policy batchv1beta1.BadNodePolicy) *jobBuilder {
		j.Spec.RunPolicy.BadNodePolicy = policy
		return j
	}
	var full []batchv1beta1.AvoidedNode
	var rest []string
	for i := range 16 {
		full = append(full, avoidedNode(fmt.Sprintf("node-%d", i), time.Minute))
		if i > 0 {
			rest = append(rest, full[i].Name)
		}
	}
	fullJob := failedBefore(lostBefore)
	fullJob.Status.AvoidedNodes = full
	naming := failedBefore(lostBefore)
	naming.Spec.Roles[0].Template.Spec.NodeName = "a"
	never := failedBefore(lostBefore)
	never.Spec.Roles[0].RestartPolicy = batchv1beta1.RestartPolicyNever
	known := failedBefore(lostBefore)
	known.Status.AvoidedNodes = []batchv1beta1.AvoidedNode{avoidedNode("a", time.Minute)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pod  *corev1.Pod
		seen view.Admission
		want []string
	}{
		"one failure is not enough":           {job: failedBefore(), pod: bad},
		"the node of two failures is avoided": {job: failedBefore(lostBefore), pod: bad, want: []string{"a"}},
		"the policy Avoid is the default": {
			job: withPolicy(failedBefore(lostBefore), "Avoid"), pod: bad, want: []string{"a"},
		},
		"a job can opt out":               {job: withPolicy(failedBefore(lostBefore), "Ignore"), pod: bad},
		"an administrator can disable it": {job: failedBefore(lostBefore).AvoidingNodes(0), pod: bad},
		"a controller that assigns nodes is obeyed": {
			job: failedBefore(lostBefore), pod: bad, seen: &admitting{standing: view.Standing{AssignsNodes: true}},
		},
		"a pod whose template names the node cannot avoid it": {job: naming, pod: bad},
		"a job that ends because of the failure has no new pods": {
			job: never, pod: pod("job-worker-0", createdAgo(5*time.Minute), onNode("a"), exited(1), withBadDevice("gpu-1")),
		},
		"failures on two nodes are one for each": {
			job: failedBefore(nodeFault("b", batchv1beta1.ReasonNodeLost, 10*time.Minute)), pod: bad,
		},
		"a program that fails does not make a node a bad one": {
			job: failedBefore(nodeFault("a", batchv1beta1.ReasonError, 10*time.Minute)), pod: bad,
		},
		"a second failure of the program does not make a node a bad one": {
			job: failedBefore(lostBefore), pod: pod("job-worker-0", createdAgo(5*time.Minute), onNode("a"), exited(1)),
		},
		"replicas that a node has lost together are one failure": {
			job: failedBefore(lostBefore), pod: pod("job-worker-0", createdAgo(time.Hour), onNode("a"), running,
				withBadDevice("gpu-1")),
		},
		"a pod that was created in the second of the first failure is of the next attempt": {
			job: failedBefore(nodeFault("a", batchv1beta1.ReasonDeviceUnhealthy, 5*time.Minute)), pod: bad,
			want: []string{"a"},
		},
		"pods without a node do not make a node a bad one": {
			job: failedBefore(nodeFault("", batchv1beta1.ReasonNodeLost, 10*time.Minute)),
			pod: pod("job-worker-0", createdAgo(5*time.Minute), onLostNode, deleting),
		},
		"at most 16 nodes are avoided, and the oldest is allowed": {job: fullJob, pod: bad, want: append(rest, "a")},
		"a node is avoided once":                                  {job: known, pod: bad, want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seeing(tc.pod)
			seen.Admission = tc.seen
			wasAvoided := len(tc.job.Status.AvoidedNodes) == 1
			d := tc.job.DecideAt(now, seen)
			diff(t, "avoided nodes", tc.want, namesOfAvoided(d))
			isAnnounced := slices.ContainsFunc(d.Events, func(e report.Event) bool { return e.Reason == "NodeAvoided" })
			diff(t, "whether an event announces it", len(tc.want) > 0 && !wasAvoided, isAnnounced)
		})
	}
}

func TestAvoidedNodeIsReported(t *testing.T) {
	t.Parallel()
	d := failedBefore(nodeFault("a", batchv1beta1.ReasonNodeLost, 10*time.Minute)).
		Sees(pod("job-worker-0", createdAgo(5*time.Minute), onNode("a"), running, withBadDevice("gpu-1")))
	diff(t, "avoided nodes", []batchv1beta1.AvoidedNode{
		{Name: "a", Reason: "DeviceUnhealthy", Since: ago(0), Until: ago(-time.Hour)},
	}, d.Status.AvoidedNodes)
	diff(t, "events", report.Event{
		Type: "Warning", Reason: "NodeAvoided", Action: "Restart",
		Message: "new pods avoid node a until 2026-03-01T13:00:00Z: replicas have failed on it twice, the last with reason " +
			"DeviceUnhealthy",
	}, d.Events[0], withoutFacts)
}

func TestAvoidedNodesOfANewPod(t *testing.T) {
	t.Parallel()
	notOn := func(nodes ...string) []corev1.NodeSelectorRequirement {
		var requirements []corev1.NodeSelectorRequirement
		for _, node := range nodes {
			requirements = append(requirements,
				corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "NotIn", Values: []string{node}})
		}
		return requirements
	}
	zone := func(name string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{name}}}
	}
	terms := func(list ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: list},
		}}
	}
	a, b := avoidedNode("a", 20*time.Minute), avoidedNode("b", 10*time.Minute)
	for name, tc := range map[string]struct {
		job      *jobBuilder
		template corev1.PodSpec
		want     *corev1.Affinity
		// wantNote is the value of the annotation AnnotationAvoidsNode of the pod.
		wantNote string
	}{
		"a pod of a job that avoids no node has no affinity": {job: avoider()},
		"a pod avoids each node by a requirement, since a requirement can have only one name": {
			job: avoider(a, b), want: terms(corev1.NodeSelectorTerm{MatchFields: notOn("a", "b")}), wantNote: "a",
		},
		"each alternative of the user gets the requirements": {
			job: avoider(a),
			template: corev1.PodSpec{Affinity: terms(
				corev1.NodeSelectorTerm{MatchExpressions: zone("x")}, corev1.NodeSelectorTerm{MatchExpressions: zone("y")})},
			want: terms(corev1.NodeSelectorTerm{MatchExpressions: zone("x"), MatchFields: notOn("a")},
				corev1.NodeSelectorTerm{MatchExpressions: zone("y"), MatchFields: notOn("a")}),
			wantNote: "a",
		},
		"a pod that names its node does not avoid it, since the kubelet would reject it": {
			job: avoider(a), template: corev1.PodSpec{NodeName: "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := tc.job.Spec.Roles[0].Template
			template.Annotations = map[string]string{batchv1beta1.AnnotationAvoidsNode: "forged"}
			tc.template.Containers = template.Spec.Containers
			template.Spec = tc.template
			tc.job.Status.Attempt, tc.job.Status.Tasks = 1, nil
			pods := podsToCreate(tc.job.Sees())
			if len(pods) != 1 {
				t.Fatalf("want one pod, got %v", names(pods))
			}
			diff(t, "affinity", tc.want, pods[0].Spec.Affinity)
			diff(t, "annotation", tc.wantNote, pods[0].Annotations[batchv1beta1.AnnotationAvoidsNode])
			diff(t, "affinity of the template", tc.template.Affinity, template.Spec.Affinity)
		})
	}
}

func TestReplicaThatIsNotRestartedHasNoNewPod(t *testing.T) {
	t.Parallel()
	j := job(restarting(role("worker", 2), batchv1beta1.RestartPolicyNever)).Scope(scopeReplica).AvoidingNodes(time.Hour).
		Saw(2*time.Hour, pod("job-worker-0", running), pod("job-worker-1", running))
	j.Status.Failures = []batchv1beta1.ReplicaFailure{nodeFault("a", batchv1beta1.ReasonNodeLost, 10*time.Minute)}
	d := j.Sees(pod("job-worker-0", running),
		pod("job-worker-1", createdAgo(5*time.Minute), onNode("a"), exited(1), withBadDevice("gpu-1")))
	diff(t, "phase", batchv1beta1.JobPhaseRunning, d.Status.Phase)
	diff(t, "avoided nodes", []string(nil), namesOfAvoided(d))
	diff(t, "events of nodes", false, slices.ContainsFunc(d.Events, func(e report.Event) bool {
		return e.Reason == batchv1beta1.EventNodeAvoided
	}))
}

// If a node causes a restart of the job, all new pods avoid this node, and not only the pod of the replica that
// failed.
func TestAllPodsOfAnAttemptAvoidTheNode(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).AvoidingNodes(time.Hour).
		Saw(2*time.Hour, pod("job-worker-0", running), pod("job-worker-1", running))
	j.Status.Failures = []batchv1beta1.ReplicaFailure{nodeFault("a", batchv1beta1.ReasonNodeLost, 10*time.Minute)}
	lost := pod("job-worker-1", createdAgo(5*time.Minute), onNode("a"), running, onLostNode, deleting)
	j.Status = j.Sees(pod("job-worker-0", onNode("b"), running), lost).Status
	var avoiders []string
	for _, p := range podsToCreate(j.DecideAt(now.Add(time.Minute), seeing())) {
		avoiders = append(avoiders, p.Name+" avoids "+p.Annotations[batchv1beta1.AnnotationAvoidsNode])
	}
	diff(t, "created pods", []string{"job-worker-0 avoids a", "job-worker-1 avoids a"}, avoiders)
	diff(t, "since", []metav1.Time{ago(0)}, []metav1.Time{j.Status.AvoidedNodes[0].Since})
}

func TestANodeIsAvoidedAgainIfItFailsJustWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
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
