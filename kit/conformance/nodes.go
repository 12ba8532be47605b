package conformance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/kit/model"
)

// avoidance is how long a job avoids a node. avoidancePatience is how long a pod that avoids nodes can be
// unschedulable before the job allows a node again.
const (
	avoidance         = time.Hour
	avoidancePatience = 5 * time.Minute
)

// nodeScenarios are scenarios in which new pods avoid nodes that have failed.
var nodeScenarios = []scenario{
	{
		name:  "new pods avoid a node that has failed twice, with each alternative of their template",
		shape: model.OnZones(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), isReplaced, run, avoidsNodesOf(), podAvoids(1),
			passes(10 * time.Second),
			losesDevice(1), avoidsNodesOf(1), passes(time.Minute), podAvoids(0, 1), podAvoids(1, 1),
			isOnZones(0), isOnZones(1), run, passes(10 * time.Minute), avoidsNodesOf(1), exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "new pods avoid a node that is lost twice",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, losesNode(1), passes(2 * time.Minute), run, losesNode(1), passes(2 * time.Minute), avoidsNodesOf(1),
			podAvoids(1, 1), run, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(4, "1 NodeLost 0 false"),
	},
	{
		name:  "new pods avoid a node that is lost after its device had a taint",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), hasTaintedDevice(1), run, losesNode(1), passes(2 * time.Minute), avoidsNodesOf(1), podAvoids(1, 1),
			run, keepsMarked, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(2, "1 NodeLost 0 false"),
	},
	{
		name:  "new pods do not avoid a node on which a replica was preempted and then lost its device",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, preempted(1), run, passes(10 * time.Second), losesDevice(1), passes(time.Minute), avoidsNodesOf(),
			podAvoids(1), run, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "new pods do not avoid a node that both replicas lose together, until it fails again",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			runOnSharedNode, passes(10 * time.Second), together(losesNode(0), losesNode(1)), passes(2 * time.Minute),
			avoidsNodes(), podAvoids(0), podAvoids(1), runOnSharedNode, passes(10 * time.Second), losesDevice(1),
			passes(time.Minute), avoidsNodes("shared-node"), runOnSharedNode, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(3, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "new pods do not avoid nodes if the job ignores bad nodes",
		shape: two(onFailure, scopeJob, limit(0), model.IgnoresNodes),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), isReplaced, run, passes(10 * time.Second), losesDevice(1),
			passes(time.Minute),
			avoidsNodesOf(), podAvoids(1), run, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a replica runs on its only node again after it could not be scheduled for a while",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			marks(0), findsNoNode(1), passes(4 * time.Minute), avoidsNodesOf(1), podAvoids(1, 1), passes(2 * time.Minute),
			avoidsNodesOf(), podAvoids(1), run, keepsMarked, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(2, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a collective runs on its only node again after it could not be scheduled for a while",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			findsNoNode(0), findsNoNode(1), passes(6 * time.Minute), avoidsNodesOf(), podAvoids(0), podAvoids(1), run,
			exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a pod that has found a node keeps it when the job allows the node that the pod avoids",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			runs(0), marks(0), findsNoNode(1), passes(6 * time.Minute), avoidsNodesOf(), podAvoids(0, 1), podAvoids(1), run,
			keepsMarked, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a job avoids a node for the whole time if its pods find another node soon",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			findsNoNode(1), passes(3 * time.Minute), run, passes(40 * time.Minute), avoidsNodesOf(1), exits(1, 0),
			exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a job allows a node again after an hour",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			run, marks(0, 1), passes(55 * time.Minute), avoidsNodesOf(1), passes(5 * time.Minute), avoidsNodesOf(),
			keepsMarked, deleted(1), passes(time.Minute), podAvoids(1), run, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(6, "1 Deleted 0 false"),
	},
	{
		name:  "a job allows the oldest of two avoided nodes first",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: slices.Concat(twiceLost(0), []step{run}, twiceLost(1), []step{
			avoidsNodesOf(0, 1), podAvoids(1, 0, 1), findsNoNode(1), passes(6 * time.Minute), avoidsNodesOf(1),
			podAvoids(1, 1), findsNoNode(1), passes(6 * time.Minute), avoidsNodesOf(), podAvoids(1), run, exits(1, 0),
			exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "only the replaced replica of an elastic job avoids a node",
		shape: elastic(1, 3, scopeReplica, limit(0)),
		steps: slices.Concat([]step{run, marks(0, 2)}, twiceLost(1), []step{
			podAvoids(0), podAvoids(1, 1), podAvoids(2), run, keepsMarked, exits(1, 0), exits(2, 0), exits(0, 0),
		}),
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Failure: "1 DeviceUnhealthy 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "a replica that is added to an elastic job avoids a node on which another one has failed twice",
		shape: elastic(1, 2, scopeReplica, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			run, passes(10 * time.Second), scaled(3), podAvoids(2, 1), run, exits(1, 0), exits(2, 0), exits(0, 0),
		}),
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 2, Failure: "1 DeviceUnhealthy 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded", "2 Succeeded"},
		},
	},
	{
		name:  "all pods of a gang avoid a node, and run on their only node again after a while",
		shape: inQueue(two(onFailure, scopeJob, limit(0))),
		steps: slices.Concat(twiceLost(1), []step{
			podAvoids(0, 1), podAvoids(1, 1), findsNoNode(0), findsNoNode(1), passes(6 * time.Minute), avoidsNodesOf(),
			podAvoids(0), podAvoids(1), run, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a job that Kueue admits avoids a node, also after an eviction",
		shape: inKueue(two(onFailure, scopeJob, limit(0))),
		steps: slices.Concat(twiceLost(1), []step{
			podAvoids(1, 1), run, evicts, podAvoids(0, 1), podAvoids(1, 1), run, exits(1, 0), exits(0, 0),
		}),
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 4, Failure: "1 DeviceUnhealthy 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Workloads: []string{requeued},
		},
	},
	{
		name:  "a job avoids no node if Kueue assigns the nodes of its pods",
		shape: model.WithTopology(two(onFailure, scopeJob, limit(0))),
		steps: slices.Concat(twiceLost(1), []step{
			avoidsNodesOf(), podAvoids(0), podAvoids(1), run, exits(1, 0), exits(0, 0),
		}),
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: 4, Failure: "1 DeviceUnhealthy 0 false",
			Pods: []string{"0 Succeeded", "1 Succeeded"}, Workloads: []string{succeeded},
		},
	},
	{
		name:  "a job avoids a node after a short pause, and no longer after a long pause",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			run, paused, passes(10 * time.Minute), resumed, podAvoids(0, 1), podAvoids(1, 1), run, paused,
			passes(2 * time.Hour), resumed, podAvoids(0), podAvoids(1), avoidsNodesOf(), run, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a job is paused and resumed while a pod waits for another node",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			findsNoNode(1), passes(4 * time.Minute), paused, passes(2 * time.Minute), resumed, run, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(4, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a job that waits for another node is deleted",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{findsNoNode(1), together(waits(6*time.Minute), jobDeleted)}),
	},
	{
		name:  "new pods avoid a node for another time if it fails again after the first time is over",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: slices.Concat(twiceLost(1), []step{
			findsNoNode(1), passes(6 * time.Minute), run, passes(time.Minute), losesDevice(1), passes(time.Minute),
			avoidsNodesOf(1), podAvoids(1, 1), run, exits(1, 0), exits(0, 0),
		}),
		want: bothSucceed(3, "1 DeviceUnhealthy 0 false"),
	},
}

// twiceLost returns the steps in which all pods start and a replica loses its device twice. At the end, the new pod
// of the replica has not started.
func twiceLost(index int) []step {
	return []step{
		run, passes(10 * time.Second), losesDevice(index), isReplaced, run, passes(10 * time.Second), losesDevice(index),
		passes(time.Minute),
	}
}

// findsNoNode returns a step in which the scheduler finds no node for the pod of a replica.
func findsNoNode(index int) step { return happensTo(index, model.FindsNoNode) }

// runOnSharedNode is a step in which all pending pods start on the same node.
func runOnSharedNode(w *world) {
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.happenTo(pod, model.RunsOnSharedNode)
		}
	}
}

// nodesOf returns the nodes on which the replicas of some indices start for the first time. Later, a replica starts
// on another node only if its pod avoids this node. See model.Runs.
func (w *world) nodesOf(indices []int) []string {
	var nodes []string
	for _, index := range indices {
		nodes = append(nodes, "node-of-"+w.podName(index))
	}
	return nodes
}

// avoidsNodesOf returns a step that checks the avoided nodes in the status. They must be exactly the nodes on which
// the replicas of some indices started for the first time.
func avoidsNodesOf(indices ...int) step {
	return func(w *world) {
		w.t.Helper()
		avoidsNodes(w.nodesOf(indices)...)(w)
	}
}

// avoidsNodes returns a step that checks the avoided nodes in the status.
func avoidsNodes(want ...string) step {
	return func(w *world) {
		w.t.Helper()
		var got []string
		for _, node := range w.status().AvoidedNodes {
			got = append(got, node.Name)
		}
		if !slices.Equal(got, want) {
			w.t.Errorf("the job avoids the nodes %q, want %q: %s", got, want, w.describe())
		}
	}
}

// podAvoids returns a step that checks which nodes the pod of an index avoids. The variadic parameter has indices of
// replicas. The pod must avoid exactly the nodes on which these replicas started for the first time.
func podAvoids(index int, of ...int) step {
	return func(w *world) {
		w.t.Helper()
		want := w.nodesOf(of)
		if got, isSame := model.NodesAvoidedBy(w.pod(index)); !slices.Equal(got, want) || !isSame {
			w.t.Errorf("the pod of index %d avoids the nodes %q (with each alternative: %t), want %q: %s",
				index, got, isSame, want, w.describe())
		}
	}
}

// isOnZones returns a step that checks that the pod of an index can run in the zones of its template and in no
// others.
func isOnZones(index int) step {
	return func(w *world) {
		w.t.Helper()
		pod := w.pod(index)
		required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		var zones []string
		for _, term := range required.NodeSelectorTerms {
			for _, expression := range term.MatchExpressions {
				zones = append(zones, expression.Values...)
			}
		}
		if !slices.Equal(zones, []string{"a", "b"}) {
			w.t.Errorf("pod %s can run in the zones %q, want those of its template", pod.Name, zones)
		}
	}
}

// nodeActions returns the events of nodes and devices.
func (w *walk) nodeActions() map[string]func(*rapid.T) {
	happens := func(what model.Mishap) func(*rapid.T) {
		return func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.happenTo(pod, what)
			}
		}
	}
	return map[string]func(*rapid.T){
		"a device becomes unhealthy":           happens(model.LosesItsDevice),
		"another device becomes unhealthy":     happens(model.LosesItsDevice),
		"the health of a device is unknown":    happens(model.ForgetsItsDevice),
		"a pod is evicted because of a device": happens(model.HasTaintedDevice),
		"a node is lost":                       happens(model.LosesItsNode),
		"a pod finds no node": func(t *rapid.T) {
			pod := w.oneOf(t, func(pod *corev1.Pod) bool {
				return pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil &&
					model.AvoidsNodes(pod) && !kubelet.IsUnschedulable(pod)
			})
			if pod != nil {
				w.happenTo(pod, model.FindsNoNode)
			}
		},
		"some minutes pass": func(*rapid.T) { w.Clock.SetTime(w.Clock.Now().Add(4 * time.Minute)) },
	}
}
