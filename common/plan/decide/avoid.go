package decide

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/affinity"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// maxAvoidedNodes is the maximum number of nodes that a job avoids. See status.avoidedNodes.
const maxAvoidedNodes = 16

// whyAvoidsNone returns why new pods of the job cannot avoid nodes, or an empty text if they can.
func (s *steps) whyAvoidsNone() string {
	switch {
	case s.Job.AvoidNodesFor == 0:
		return "the flag --avoid-nodes-for of the controller is 0"
	case s.Job.Spec.RunPolicy.BadNodePolicy == batchv1beta1.BadNodePolicyIgnore:
		return "runPolicy.badNodePolicy is Ignore"
	case s.Standing.AssignsNodes: // a pod that avoids its assigned node would never start
		return "Kueue assigns the nodes of the job"
	default:
		return ""
	}
}

// avoidBadNode is called for each failure f that restarts replicas. If the node that caused f has also caused an
// earlier failure in status.failures, new pods avoid this node.
func (s *steps) avoidBadNode(f view.ReplicaFailure) {
	if !s.hasFailedBefore(f) || s.whyAvoidsNone() != "" {
		return
	}
	s.allowOverdueNodes()
	if s.avoids(f.Node()) {
		return
	}
	if len(s.AvoidedNodes) == maxAvoidedNodes {
		s.allowOldestNode(fmt.Sprintf("a job avoids at most %d nodes", maxAvoidedNodes))
	}
	node := batchv1beta1.AvoidedNode{
		Name: f.Node(), Reason: f.Failure.Reason,
		Since: *view.Stored(s.Now), Until: *view.Stored(s.Now.Add(s.Job.AvoidNodesFor)),
	}
	s.AvoidedNodes = append(s.AvoidedNodes, node)
	s.happens(AvoidsNode{Node: node})
}

// hasFailedBefore reports whether a node caused the failure f, and status.failures has an earlier failure that the
// same node caused. The result is true only if the pod that failed was created after the earlier failure: the loss of
// a node counts as one failure, however many replicas run on the node. The result is false if the template names its
// node, because pods of that template cannot avoid the node.
func (s *steps) hasFailedBefore(f view.ReplicaFailure) bool {
	pod, node := f.Culprit().Pod, f.Node()
	if pod == nil || node == "" || !policy.IsNodeFault(f.Failure.Reason) ||
		f.Culprit().Member.Role.Template.Spec.NodeName != "" {
		return false
	}
	return slices.ContainsFunc(s.Failures, func(before batchv1beta1.ReplicaFailure) bool {
		return before.Node == node && policy.IsNodeFault(before.Reason) &&
			!pod.CreationTimestamp.Before(&before.Time)
	})
}

// avoids reports whether new pods avoid a node.
func (s *steps) avoids(node string) bool {
	return slices.ContainsFunc(s.AvoidedNodes, func(n batchv1beta1.AvoidedNode) bool { return n.Name == node })
}

// allowOldestNode removes one node from AvoidedNodes: the node that the job has avoided for the longest time.
func (s *steps) allowOldestNode(why string) {
	name := s.AvoidedNodes[0].Name
	s.AvoidedNodes = s.AvoidedNodes[1:]
	s.happens(AllowsNode{Name: name, Why: why})
}

// allowNodes updates AvoidedNodes, and removes the nodes that the job no longer avoids. If a pod has no node yet and
// avoids a removed node, the pod is replaced.
//
// If a pod that avoids nodes cannot be scheduled, the job sets the field Until of the oldest node to an earlier time.
// This time holds until all replicas have nodes, even if the pods are replaced. Otherwise, the job might never stop
// avoiding the node: whenever Kueue evicts a job whose pods do not start, the wait would begin again with the next
// pods.
func (s *steps) allowNodes() {
	if why := s.whyAvoidsNone(); why != "" {
		for len(s.AvoidedNodes) > 0 {
			s.allowOldestNode(why)
		}
	}
	s.allowOverdueNodes()
	for i := range s.AvoidedNodes {
		node := &s.AvoidedNodes[i]
		until := s.avoidedUntil(*node)
		if i == 0 && s.needsScheduling() {
			until = policy.Earlier(until, node.Until.Time)
			if slices.ContainsFunc(s.Replicas, isUnschedulable) {
				until = policy.Earlier(until, view.Stored(s.Now.Add(s.Job.AvoidNodesPatience)).Time)
				s.requeueUrgentlyAt(until)
			}
		}
		node.Until = metav1.NewTime(until)
		s.requeueAt(until)
	}
	s.replaceUnbound()
}

// allowOverdueNodes checks the field Until of the nodes in AvoidedNodes, and removes each node whose time has passed.
func (s *steps) allowOverdueNodes() {
	for len(s.AvoidedNodes) > 0 && !s.Now.Before(s.AvoidedNodes[0].Until.Time) {
		why := "its time is over"
		if oldest := s.AvoidedNodes[0]; oldest.Until.Time.Before(s.avoidedUntil(oldest)) && s.needsScheduling() {
			why = "replicas of the job have waited for a node"
		}
		s.allowOldestNode(why)
	}
}

// avoidedUntil returns when the job normally stops avoiding a node. allowNodes can set an earlier time.
func (s *steps) avoidedUntil(node batchv1beta1.AvoidedNode) time.Time {
	return view.Stored(node.Since.Add(s.Job.AvoidNodesFor)).Time
}

// isUnschedulable reports whether the pod of the replica avoids nodes and cannot be scheduled.
func isUnschedulable(r *view.Replica) bool {
	return isUnbound(r) && policy.ConditionOf(r.Pod, corev1.PodScheduled).Reason == corev1.PodReasonUnschedulable
}

// isUnbound reports whether the pod of the replica avoids nodes and has no node yet.
func isUnbound(r *view.Replica) bool {
	return r.IsCurrent() && r.Pod.Annotations[batchv1beta1.AnnotationAvoidsNode] != "" && r.Pod.Spec.NodeName == "" &&
		r.Pod.DeletionTimestamp == nil
}

// replaceUnbound deletes each pod that has no node and avoids a node that the job no longer avoids. The replica then
// gets another pod, because the node affinity of a pod cannot be relaxed.
func (s *steps) replaceUnbound() {
	for _, r := range s.Replicas {
		if !isUnbound(r) {
			continue
		}
		if !s.avoids(r.Pod.Annotations[batchv1beta1.AnnotationAvoidsNode]) {
			// A clean-up deletes a pod only if it is unchanged. So a pod that has got a node since stays.
			s.CleanUps = append(s.CleanUps, r.Pod)
		}
	}
}

// avoidNodes adds a requirement to a pod for each node that the job avoids. It adds none to a pod that names its
// node, because the kubelet of that node would reject the pod.
func (s *steps) avoidNodes(pod *corev1.Pod) {
	delete(pod.Annotations, batchv1beta1.AnnotationAvoidsNode)
	if len(s.AvoidedNodes) == 0 || pod.Spec.NodeName != "" {
		return
	}
	var requirements []corev1.NodeSelectorRequirement
	for _, node := range s.AvoidedNodes {
		requirements = append(requirements, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node.Name},
		})
	}
	affinity.Restrict(&pod.Spec, corev1.NodeSelectorTerm{MatchFields: requirements})
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1beta1.AnnotationAvoidsNode, s.AvoidedNodes[0].Name)
}
