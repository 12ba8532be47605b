package simulated

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/localcluster"
)

// AddNodes adds a simulated node for each quantity of CPU. It returns the names of the nodes when all are ready. Each
// node has more of the other resources than tests need.
func (c *ControlPlane) AddNodes(ctx context.Context, cpus ...string) ([]string, error) {
	var names []string
	for _, cpu := range cpus {
		quantity, err := resource.ParseQuantity(cpu)
		if err != nil {
			return nil, err
		}
		node := localcluster.SimulatedNode(c.nodes)
		c.nodes++
		node.Status.Capacity[corev1.ResourceCPU] = quantity
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
		if err := c.Client.Create(ctx, node); err != nil {
			return nil, err
		}
		names = append(names, node.Name)
		if kwok, err := c.kwokOfNode(node.Name); err != nil {
			return nil, err
		} else if err := c.run(ctx, kwok); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
			node := &corev1.Node{}
			if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
				return false, err
			}
			return schedulable(node), nil
		})
		if err != nil {
			return nil, fmt.Errorf("waiting for node %s to be ready: %w", name, err)
		}
	}
	return names, nil
}

// schedulable reports whether the node is ready and has no taints. Controllers of Kubernetes remove the taints of a
// new node when the node is ready.
func schedulable(node *corev1.Node) bool {
	ready := false
	for _, condition := range node.Status.Conditions {
		ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	return ready && len(node.Spec.Taints) == 0
}

// RemoveNode deletes a node, as if its machine was removed. Controllers of Kubernetes delete the pods of the node.
func (c *ControlPlane) RemoveNode(ctx context.Context, name string) error {
	return c.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// LoseNode makes a node unavailable for a short time. It freezes kwok, adds the taint of a node that is out of
// service, and calls the function seen. Kubernetes evicts the pods of the node because of the taint, but the pods
// stay Terminating while kwok is frozen. So the function can wait until the controllers have recorded why their pods
// are deleted. When the function returns, LoseNode removes the taint and continues kwok. Then the pods end, and new
// pods can run on the node. LoseNode needs the component Kwok.
func (c *ControlPlane) LoseNode(ctx context.Context, name string, seen func()) error {
	if err := c.Freeze(Kwok); err != nil {
		return err
	}
	lost := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	if err := c.taint(ctx, name, lost); err != nil {
		return err
	}
	seen()
	if err := c.taint(ctx, name); err != nil {
		return err
	}
	return c.Thaw(Kwok)
}

// taint replaces the taints of a node.
func (c *ControlPlane) taint(ctx context.Context, name string, taints ...corev1.Taint) error {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	base := node.DeepCopy()
	node.Spec.Taints = taints
	return c.Client.Patch(ctx, node, client.MergeFrom(base))
}

// Bound returns the names of the pods of a group that are bound to a node, in the order in which the API server lists
// the pods.
func (c *ControlPlane) Bound(ctx context.Context, namespace, group string) ([]string, error) {
	pods, err := c.pods(ctx, namespace, group)
	var bound []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod.Name)
		}
	}
	return bound, err
}

// waiting returns the pods of a group that the engine should bind. The engine ignores pods with a scheduling gate.
func (c *ControlPlane) waiting(ctx context.Context, namespace, group string) ([]corev1.Pod, error) {
	pods, err := c.pods(ctx, namespace, group)
	var waiting []corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() && pod.Spec.SchedulerName == SchedulerName &&
			len(pod.Spec.SchedulingGates) == 0 {
			waiting = append(waiting, pod)
		}
	}
	return waiting, err
}

func (c *ControlPlane) pods(ctx context.Context, namespace, group string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{LabelGroup: group})
	return pods.Items, err
}
