package model

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
)

// The device of each pod.
const (
	DeviceResource corev1.ResourceName = "nvidia.com/gpu"
	DeviceID       corev1.ResourceID   = "GPU-1"
)

// maxAvoidedNodes is the maximum number of nodes that a job avoids.
const maxAvoidedNodes = 16

// withDevice returns a mishap that changes the health of the device of the pod.
func withDevice(how func(*corev1.Pod, corev1.ResourceName, corev1.ResourceID)) Mishap {
	return changes(func(p *corev1.Pod, _ time.Time) { how(p, DeviceResource, DeviceID) })
}

// Events of nodes and devices.
var (
	// LosesItsDevice makes the device of the pod unhealthy. The containers still run.
	LosesItsDevice = withDevice(kubelet.BreakDevice)
	// ForgetsItsDevice makes the health of the device unknown.
	ForgetsItsDevice = withDevice(kubelet.ForgetDevice)
	// GetsItsDeviceBack makes the device of the pod healthy.
	GetsItsDeviceBack = withDevice(kubelet.RepairDevice)
	// HasTaintedDevice makes Kubernetes evict the pod because one of its devices has a taint.
	HasTaintedDevice = changes(kubelet.TaintDevice).then(IsDeleted)
	// FindsNoNode makes the scheduler report that the pod fits on no node.
	FindsNoNode = changes(kubelet.FindNoNode)
	// RunsOnSharedNode binds the pod to the first shared node that it does not avoid, and starts its containers.
	RunsOnSharedNode = changes(func(p *corev1.Pod, at time.Time) { kubelet.Run(p, nodeFor(p, "shared-node"), at) })
)

// nodeOf returns a node that the pod does not avoid and on which no other replica runs.
func nodeOf(pod *corev1.Pod) string { return nodeFor(pod, "node-of-"+pod.Name) }

// nodeFor returns the first node that the pod does not avoid. The names of the nodes are the given name, and then
// this name with the numbers 2, 3 and so on.
func nodeFor(pod *corev1.Pod, name string) string {
	avoided, _ := NodesAvoidedBy(pod)
	node := name
	for i := 2; slices.Contains(avoided, node); i++ {
		node = fmt.Sprintf("%s-%d", name, i)
	}
	return node
}

// NodesAvoidedBy returns the nodes that a pod avoids, sorted by name. All terms of the node affinity should avoid the
// same nodes, because the pod can run on any node that matches one term. If the terms differ, isSame is false, and
// the result has the nodes that the first term avoids.
func NodesAvoidedBy(pod *corev1.Pod) (nodes []string, isSame bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil, true
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil, true
	}
	isSame = true
	for i, term := range required.NodeSelectorTerms {
		var avoided []string
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpNotIn {
				avoided = append(avoided, field.Values...)
			}
		}
		slices.Sort(avoided)
		if i == 0 {
			nodes = avoided
		}
		isSame = isSame && slices.Equal(nodes, avoided)
	}
	return nodes, isSame
}

// AvoidsNodes reports whether a pod avoids nodes.
func AvoidsNodes(pod *corev1.Pod) bool {
	return pod.Annotations[batchv1beta1.AnnotationAvoidsNode] != ""
}

// canAvoid reports whether the new pods of a job can avoid nodes.
func canAvoid(o Objects, spec framework.JobSpec) bool {
	return spec.RunPolicy.BadNodePolicy != batchv1beta1.BadNodePolicyIgnore && !hasTopology(o.Workload())
}

// hasTopology reports whether Kueue assigns the nodes of the pods of a Workload.
func hasTopology(workload *kueuev1beta2.Workload) bool {
	return workload != nil && workload.Status.Admission != nil && slices.ContainsFunc(
		workload.Status.Admission.PodSetAssignments,
		func(a kueuev1beta2.PodSetAssignment) bool { return a.TopologyAssignment != nil })
}

func avoidedNode(status batchv1beta1.JobStatus, name string) *batchv1beta1.AvoidedNode {
	for i := range status.AvoidedNodes {
		if status.AvoidedNodes[i].Name == name {
			return &status.AvoidedNodes[i]
		}
	}
	return nil
}

// checkAvoidance checks that a new pod avoids exactly the nodes in status.avoidedNodes, and that its annotation names
// the oldest of them. If Kueue assigns the nodes of the job's pods, the new pod must avoid no node.
func checkAvoidance(t Reporter, now Objects, pod *corev1.Pod) {
	t.Helper()
	job := now.Job()
	if job == nil {
		return // the job was just deleted
	}
	nodes, isSame := NodesAvoidedBy(pod)
	if !isSame {
		t.Errorf("pod %s avoids nodes only with some of its terms: %+v", pod.Name, pod.Spec.Affinity)
	}
	if len(nodes) > 0 && hasTopology(now.Workload()) {
		t.Errorf("pod %s avoids %q, but Kueue assigns its node", pod.Name, nodes)
	}
	var want []string
	oldest := ""
	for i, node := range job.JobStatus().AvoidedNodes {
		if want = append(want, node.Name); i == 0 {
			oldest = node.Name
		}
	}
	slices.Sort(want)
	if got := pod.Annotations[batchv1beta1.AnnotationAvoidsNode]; !slices.Equal(nodes, want) || got != oldest {
		t.Errorf("pod %s avoids %q, and the annotation names %q, but the status has %q, and %q is the oldest",
			pod.Name, nodes, got, want, oldest)
	}
}

// isReplaced reports whether the controller may delete a pod although it is of the current attempt: the pod has no
// node, and the job no longer avoids the node in the pod's annotation.
func isReplaced(status batchv1beta1.JobStatus, pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && AvoidsNodes(pod) &&
		avoidedNode(status, pod.Annotations[batchv1beta1.AnnotationAvoidsNode]) == nil
}

// NewNodeFaults returns the node faults among the failures that a status change adds. The cause of such a failure is
// a node or one of its devices.
func NewNodeFaults(before, after batchv1beta1.JobStatus) []batchv1beta1.ReplicaFailure {
	return slices.DeleteFunc(newFailures(before, after), func(f batchv1beta1.ReplicaFailure) bool { return !isFault(f) })
}

// newFailures returns the failures that a status change adds. New failures are at the beginning of the list.
func newFailures(before, after batchv1beta1.JobStatus) []batchv1beta1.ReplicaFailure {
	for n := range after.Failures {
		kept := after.Failures[n:]
		if len(kept) <= len(before.Failures) && equality.Semantic.DeepEqual(kept, before.Failures[:len(kept)]) {
			return slices.Clone(after.Failures[:n])
		}
	}
	return slices.Clone(after.Failures)
}

func isFault(failure batchv1beta1.ReplicaFailure) bool { return policy.IsNodeFault(failure.Reason) }

// checkNodes checks a status write that records faults of nodes or changes the avoided nodes.
//
//   - A fault of a node does not count. An unhealthy device ends a running replica only if the replica is then
//     restarted.
//   - The status has at most 16 avoided nodes, and each of them only once.
//   - A node is added only when the status records a second fault of the node. The pod that met the second fault must
//     not have been on the node at the time of the first fault. If the same replica met both faults, the node must be
//     added, unless new pods of the job cannot avoid nodes.
//   - A node is removed only if its time is over, the list is full, or new pods of the job can no longer avoid nodes.
func checkNodes(t Reporter, k Kind, now Objects, before, after batchv1beta1.JobStatus, by Writer) {
	t.Helper()
	spec := k.SpecOf(now.Job())
	faults := NewNodeFaults(before, after)
	for _, f := range faults {
		if f.Counted {
			t.Errorf("a fault of a node counts: %+v", f)
		}
		hasEnded := f.ExitCode != nil || f.Reason != batchv1beta1.ReasonDeviceUnhealthy
		if !hasEnded && (spec.RunMode.Debugging() || spec.Roles[0].RestartPolicy == Never) {
			t.Errorf("an unhealthy device ends a replica that is not restarted: %+v", f)
		}
		if (f.Reason == batchv1beta1.ReasonDeviceUnhealthy) != (len(f.Devices) > 0) {
			t.Errorf("a failure with the reason %s has the devices %+v", f.Reason, f.Devices)
		}
		isAgain := slices.ContainsFunc(before.Failures, func(first batchv1beta1.ReplicaFailure) bool {
			return isFault(first) && first.Node == f.Node && first.Replica == f.Replica
		})
		if isAgain && f.Node != "" && canAvoid(now, spec) && avoidedNode(after, f.Node) == nil {
			t.Errorf("node %s has two faults, but the job does not avoid it: %+v", f.Node, after.Failures)
		}
	}
	if len(after.AvoidedNodes) > maxAvoidedNodes {
		t.Errorf("the job avoids %d nodes, want at most %d", len(after.AvoidedNodes), maxAvoidedNodes)
	}
	for i, node := range after.AvoidedNodes {
		isSame := func(n batchv1beta1.AvoidedNode) bool { return n.Name == node.Name }
		if slices.ContainsFunc(after.AvoidedNodes[:i], isSame) {
			t.Errorf("the status has the avoided node %s twice", node.Name)
		}
		if avoidedNode(before, node.Name) == nil {
			checkAddition(t, now, before, faults, node)
			if !canAvoid(now, spec) {
				t.Errorf("the job avoids node %s, although its pods cannot avoid nodes", node.Name)
			}
		}
	}
	for _, node := range before.AvoidedNodes {
		isOver := !by.Now.Before(node.Until.Time) || len(before.AvoidedNodes) == maxAvoidedNodes
		if avoidedNode(after, node.Name) == nil && !isOver && canAvoid(now, spec) {
			t.Errorf("the job no longer avoids node %s before %s", node.Name, node.Until)
		}
	}
}

// checkAddition checks that two faults of a node are recorded when the job begins to avoid the node. The pod that met
// the second fault must not have been on the node at the time of the first fault.
func checkAddition(
	t Reporter, now Objects, before batchv1beta1.JobStatus, faults []batchv1beta1.ReplicaFailure,
	node batchv1beta1.AvoidedNode,
) {
	t.Helper()
	all := append(slices.Clone(faults), before.Failures...)
	ofNode := func(f batchv1beta1.ReplicaFailure) bool { return isFault(f) && f.Node == node.Name }
	for i, second := range faults {
		if ofNode(second) && slices.ContainsFunc(all[i+1:], func(first batchv1beta1.ReplicaFailure) bool {
			return ofNode(first) && !wasThere(now, second, first)
		}) {
			return
		}
	}
	t.Errorf("the job avoids node %s, but no two faults of it are recorded: %+v, before %+v",
		node.Name, faults, before.Failures)
}

// wasThere reports whether the pod of the second failure was already on its node at the time of the first failure.
func wasThere(now Objects, second, first batchv1beta1.ReplicaFailure) bool {
	return slices.ContainsFunc(now.Pods(), func(pod *corev1.Pod) bool {
		return pod.Name == second.Replica && pod.Spec.NodeName == second.Node && pod.CreationTimestamp.Before(&first.Time)
	})
}

// CheckNodes checks the nodes and devices of a job at rest.
//
//   - No replica that can be restarted runs with an unhealthy device.
//   - No pod that avoids nodes is unschedulable.
func CheckNodes(k Kind, o Objects) (wrong []string) {
	job := o.Job()
	spec, status := k.SpecOf(job), *job.JobStatus()
	if status.Decided() || spec.RunMode.Pausing() {
		return nil
	}
	for _, pod := range o.Pods() {
		if IsRelabelled(pod) || AttemptLabel(pod) != AttemptOf(status, pod.Name) {
			continue
		}
		isRestarted := spec.Roles[0].RestartPolicy != Never && !spec.RunMode.Debugging()
		if isRestarted && kubelet.IsTraining(pod) && kubelet.HasUnhealthyDevice(pod) && pod.DeletionTimestamp == nil {
			wrong = append(wrong, "pod "+pod.Name+" runs with an unhealthy device")
		}
		if AvoidsNodes(pod) && kubelet.IsUnschedulable(pod) {
			wrong = append(wrong, "pod "+pod.Name+" waits for a node that it avoids")
		}
	}
	return wrong
}

// OnZones returns the shape of a job whose pods can run on the nodes of two zones.
func OnZones(s Shape) Shape {
	var terms []corev1.NodeSelectorTerm
	for _, zone := range []string{"a", "b"} {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		}})
	}
	s.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return s
}

// IgnoresNodes sets the badNodePolicy Ignore, so that new pods do not avoid nodes with faults.
func IgnoresNodes(p *batchv1beta1.RunPolicy) { p.BadNodePolicy = batchv1beta1.BadNodePolicyIgnore }
