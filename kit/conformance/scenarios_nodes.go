package conformance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// avoidance is how long a job avoids a node. avoidancePatience is how long a pod that avoids nodes can be
// unschedulable before the job allows a node again.
const (
	avoidance         = time.Hour
	avoidancePatience = 5 * time.Minute
)

// bothSucceed returns the expected result of a job with two replicas that succeed. No failure counts. The parameter
// failure is the newest failure, which is ignored.
func bothSucceed(restarts int32, failure string) result {
	return result{
		Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: restarts, Failure: failure,
		Pods: []string{"0 Succeeded", "1 Succeeded"},
	}
}

// nodeScenarios are scenarios in which nodes and devices fail.
var nodeScenarios = []scenario{
	{
		name:  "an unhealthy device restarts all replicas of a collective once, and the restart does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), hasDevices("1"), isReplaced, run, passes(time.Hour), exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "an unhealthy device of the leader restarts only the leader, if replicas restart alone",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, marks(1), passes(10 * time.Second), losesDevice(0), keepsMarked, isReplaced, run, keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(1, "0 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a device that is healthy again before the controller sees it restarts nothing",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), together(losesDevice(1), getsDeviceBack(1)), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a device whose health is unknown restarts nothing",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), forgetsDevice(1), passes(time.Hour), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a replica that never restarts goes on with an unhealthy device",
		shape: two(never, scopeJob),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), losesDevice(1), losesDevice(0), passes(time.Hour), keepsMarked,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a replica that never restarts stays failed if its program exits because of an unhealthy device",
		shape: two(never, scopeReplica),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), exits(1, 1), stands(batchv1beta1.JobPhaseRunning), hasDevices("1"),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"},
			Failure: "1 DeviceUnhealthy 1 false",
		},
	},
	{
		name:  "a job in debug mode goes on with an unhealthy device",
		shape: model.Debugging(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), losesDevice(1), passes(time.Hour), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "the exit of a program whose device is unhealthy does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), exits(1, 1)), hasDevices("1"), isReplaced, run,
			exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 1 false"),
	},
	{
		name:  "the failures of peers that follow from an unhealthy device do not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), exits(0, 1)), isReplaced, run, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a program that exceeds its memory limit while its device is unhealthy counts",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), ranOutOfMemory(1)), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 OOMKilled 137 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job succeeds although a device is unhealthy when its leader ends",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, passes(10 * time.Second), together(losesDevice(0), exits(1, 0), exits(0, 0))},
		want:  bothSucceed(0, ""),
	},
	{
		name:  "an eviction because of the taint of a device restarts all replicas, and the restart does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, passes(10 * time.Second), hasTaintedDevice(1), run, exits(1, 0), exits(0, 0)},
		want:  bothSucceed(2, "1 DeviceTainted 0 false"),
	},
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

// isReplaced is a step in which enough time passes for the restart after an unhealthy device.
func isReplaced(w *world) { passes(20 * time.Second)(w) }

// losesDevice returns a step in which the device of a replica becomes unhealthy.
func losesDevice(index int) step { return happensTo(index, model.LosesItsDevice) }

// forgetsDevice returns a step in which the health of the device of a replica becomes unknown.
func forgetsDevice(index int) step { return happensTo(index, model.ForgetsItsDevice) }

// getsDeviceBack returns a step in which the device of a replica becomes healthy.
func getsDeviceBack(index int) step { return happensTo(index, model.GetsItsDeviceBack) }

// hasTaintedDevice returns a step in which the pod of a replica is evicted because its device has a taint.
func hasTaintedDevice(index int) step { return happensTo(index, model.HasTaintedDevice) }

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

// hasDevices returns a step that checks that the newest failure is of the given replica and names the device of the
// replica's pod.
func hasDevices(index string) step {
	return func(w *world) {
		w.t.Helper()
		want := []batchv1beta1.UnhealthyDevice{{Resource: string(model.DeviceResource), ID: string(model.DeviceID)}}
		failures := w.status().Failures
		if len(failures) == 0 || !slices.Equal(failures[0].Devices, want) ||
			failures[0].Replica[len(failures[0].Replica)-1:] != index {
			w.t.Errorf("the failures are %+v, want the newest of replica %s with the devices %+v", failures, index, want)
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
