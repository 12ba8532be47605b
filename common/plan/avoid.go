package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/affinity"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// maxAvoidedNodes is how many nodes a job avoids. See status.avoidedNodes.
const maxAvoidedNodes = 16

// whyAvoidsNone returns why new pods of the job avoid no nodes. It is empty if they can avoid nodes.
func (v *view) whyAvoidsNone() string {
	switch {
	case v.job.AvoidNodesFor == 0:
		return "the flag --avoid-nodes-for of the controller is 0"
	case v.job.Spec.RunPolicy.BadNodePolicy == batchv1beta1.BadNodePolicyIgnore:
		return "runPolicy.badNodePolicy is Ignore"
	case v.standing().AssignsNodes: // a pod that avoids its node would never start
		return "Kueue assigns the nodes of the job"
	default:
		return ""
	}
}

// avoidBadNode makes new pods avoid the node of a failure that restarts replicas, if status.failures has an earlier
// failure that the node has caused.
func (s *steps) avoidBadNode(f replicaFailure) {
	if !s.hasFailedBefore(f) || s.whyAvoidsNone() != "" {
		return
	}
	s.allowOverdueNodes()
	if s.avoids(f.node()) {
		return
	}
	if len(s.Status.AvoidedNodes) == maxAvoidedNodes {
		s.allowOldestNode(fmt.Sprintf("a job avoids at most %d nodes", maxAvoidedNodes))
	}
	node := batchv1beta1.AvoidedNode{
		Name: f.node(), Reason: f.failure.Reason,
		Since: *stored(s.now), Until: *stored(s.now.Add(s.job.AvoidNodesFor)),
	}
	s.Status.AvoidedNodes = append(s.Status.AvoidedNodes, node)
	s.addEvent(corev1.EventTypeWarning, batchv1beta1.EventNodeAvoided, "Restart",
		fmt.Sprintf("new pods avoid node %s until %s: replicas have failed on it twice, the last with reason %s",
			node.Name, node.Until.UTC().Format(time.RFC3339), node.Reason), "node", node.Name, "cause", node.Reason)
}

// hasFailedBefore reports whether a failure is the second one that its node has caused, as status.failures shows. The
// pod must have been created after the first one: the loss of a node is one failure, however many replicas run on the
// node. A pod whose template names the node cannot avoid it.
func (s *steps) hasFailedBefore(f replicaFailure) bool {
	pod, node := f.culprit().pod, f.node()
	if pod == nil || node == "" || !policy.IsNodeFault(f.failure.Reason) ||
		f.culprit().member.Role.Template.Spec.NodeName != "" {
		return false
	}
	return slices.ContainsFunc(s.Status.Failures, func(before batchv1beta1.ReplicaFailure) bool {
		return before.Node == node && policy.IsNodeFault(before.Reason) &&
			!pod.CreationTimestamp.Before(&before.Time)
	})
}

// avoids reports whether new pods avoid a node.
func (s *steps) avoids(node string) bool {
	return slices.ContainsFunc(s.Status.AvoidedNodes, func(n batchv1beta1.AvoidedNode) bool { return n.Name == node })
}

// allowOldestNode removes the node that the job has avoided for the longest time.
func (s *steps) allowOldestNode(why string) {
	name := s.Status.AvoidedNodes[0].Name
	s.Status.AvoidedNodes = s.Status.AvoidedNodes[1:]
	s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventNodeAllowed, "Restart",
		fmt.Sprintf("new pods can run on node %s again: %s", name, why), "node", name)
}

// allowNodes removes the nodes that the job no longer avoids. Pods without a node that avoid more nodes than the status
// then lists are replaced.
//
// If a pod that avoids nodes cannot be scheduled, the end of the oldest one is brought forward. It stays so until all
// replicas have nodes: a pod that Kueue evicts because it does not start would otherwise postpone the end forever.
func (s *steps) allowNodes() {
	if why := s.whyAvoidsNone(); why != "" {
		for len(s.Status.AvoidedNodes) > 0 {
			s.allowOldestNode(why)
		}
	}
	s.allowOverdueNodes()
	for i := range s.Status.AvoidedNodes {
		node := &s.Status.AvoidedNodes[i]
		until := s.endOf(*node)
		if i == 0 && s.needsScheduling() {
			until = earlier(until, &node.Until)
			if slices.ContainsFunc(s.replicas, (*replica).isUnschedulable) {
				until = earlier(until, stored(s.now.Add(s.job.AvoidNodesPatience)))
				s.wakeUrgentlyAt(until.Time)
			}
		}
		node.Until = *until
		s.wakeAt(until.Time)
	}
	s.replaceUnbound()
}

// allowOverdueNodes removes the nodes whose time is over.
func (s *steps) allowOverdueNodes() {
	for len(s.Status.AvoidedNodes) > 0 && !s.now.Before(s.Status.AvoidedNodes[0].Until.Time) {
		why := "its time is over"
		if oldest := s.Status.AvoidedNodes[0]; oldest.Until.Before(s.endOf(oldest)) && s.needsScheduling() {
			why = "replicas of the job have waited for a node"
		}
		s.allowOldestNode(why)
	}
}

// endOf returns when the job stops avoiding a node if its pods can be scheduled.
func (v *view) endOf(node batchv1beta1.AvoidedNode) *metav1.Time {
	return stored(node.Since.Add(v.job.AvoidNodesFor))
}

// isUnschedulable reports whether the pod avoids nodes and its scheduler has found no node for it.
func (r *replica) isUnschedulable() bool {
	return r.isUnbound() && slices.ContainsFunc(r.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// isUnbound reports whether the pod avoids nodes and has no node yet.
func (r *replica) isUnbound() bool {
	return r.isCurrent() && r.pod.Annotations[batchv1beta1.AnnotationAvoidsNode] != "" && r.pod.Spec.NodeName == "" &&
		r.pod.DeletionTimestamp == nil
}

// replaceUnbound deletes the pods without a node that avoid a node which the job no longer avoids. The nodes that a pod
// avoids cannot be changed.
func (s *steps) replaceUnbound() {
	for _, r := range s.replicas {
		if !r.isUnbound() {
			continue
		}
		if !s.avoids(r.pod.Annotations[batchv1beta1.AnnotationAvoidsNode]) {
			// The precondition of clean-ups keeps a pod that has got a node since.
			s.CleanUps = append(s.CleanUps, r.pod)
		}
	}
}

// avoidNodes adds a requirement to a pod for each node that the job avoids. It does nothing for a pod that names its
// node: the kubelet of that node would reject the pod.
func (s *steps) avoidNodes(pod *corev1.Pod) {
	delete(pod.Annotations, batchv1beta1.AnnotationAvoidsNode)
	if len(s.Status.AvoidedNodes) == 0 || pod.Spec.NodeName != "" {
		return
	}
	var requirements []corev1.NodeSelectorRequirement
	for _, node := range s.Status.AvoidedNodes {
		requirements = append(requirements, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node.Name},
		})
	}
	affinity.Restrict(&pod.Spec, corev1.NodeSelectorTerm{MatchFields: requirements})
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1beta1.AnnotationAvoidsNode, s.Status.AvoidedNodes[0].Name)
}

// earlier returns the earlier of two times.
func earlier(a, b *metav1.Time) *metav1.Time {
	if b.Before(a) {
		return b
	}
	return a
}
