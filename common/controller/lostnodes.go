package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/policy"
)

// observeNodes finds out whether the pods that a taint evicts are on lost nodes or on nodes that respond. A pod does
// not show which taint evicts it. Its tolerations do not show it either, because a tenant chooses them. So
// observeNodes reads the node. If the node responds, observeNodes replaces the pod in pods with a copy that counts as
// evicted. If a node does not exist, or the controller has no permission to read it, the pods on it count as pods of
// a lost node.
func (r *Reconciler[J]) observeNodes(ctx context.Context, pods map[string]*corev1.Pod) error {
	evicted := map[string][]string{} // names of pods by node
	for name, pod := range pods {
		if policy.IsEvictedByTaint(pod) && pod.Spec.NodeName != "" {
			evicted[pod.Spec.NodeName] = append(evicted[pod.Spec.NodeName], name)
		}
	}
	if len(evicted) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(evicted))
	responds := make([]bool, len(names))
	goOn := func(error) bool { return false }
	err := inParallel(r.options.MaxRequests, len(names), goOn, func(i int) error {
		var node corev1.Node
		err := r.cluster.APIReader.Get(ctx, client.ObjectKey{Name: names[i]}, &node)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the node of an evicted pod: %w", err)
		}
		responds[i] = !policy.IsLost(&node)
		return nil
	})
	for i, node := range names {
		if !responds[i] {
			continue
		}
		for _, pod := range evicted[node] {
			pods[pod] = policy.OnRespondingNode(pods[pod])
		}
	}
	return err
}
