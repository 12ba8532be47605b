// Package affinity restricts pods to nodes.
package affinity

import corev1 "k8s.io/api/core/v1"

// Restrict restricts a pod to nodes that meet the requirements. The pod keeps its own requirements. Empty requirements
// change nothing.
func Restrict(pod *corev1.PodSpec, requirements corev1.NodeSelectorTerm) {
	if isEmpty(requirements) {
		return
	}
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Affinity.NodeAffinity
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{requirements},
		}
		return
	}
	// A pod can run on a node that matches any one of the terms, so the requirements must be added to each term.
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		// A term that is empty matches no node. Leave it empty, because the API server rejects a pod update that changes an
		// empty term.
		if !isEmpty(*term) {
			term.MatchExpressions = append(term.MatchExpressions, requirements.MatchExpressions...)
			term.MatchFields = append(term.MatchFields, requirements.MatchFields...)
		}
	}
}

func isEmpty(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions)+len(term.MatchFields) == 0
}
