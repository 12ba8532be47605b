package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
)

// Mishap is an event that can happen to a pod. It returns an error if the API server rejects the change.
type Mishap func(*Cluster, *corev1.Pod) error

// changes returns a mishap that changes the status of the pod or binds the pod to a node.
func changes(how func(*corev1.Pod, time.Time)) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		c.Change(pod, func(p *corev1.Pod) { how(p, c.clock.Now()) })
		return nil
	}
}

// then returns a mishap that consists of two mishaps: the receiver and the next one.
func (m Mishap) then(next Mishap) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		if err := m(c, pod); err != nil {
			return err
		}
		return next(c, pod)
	}
}

func removes(options client.DeleteOptions) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error { return c.Remove(pod, options) }
}

// Exits ends the main container with an exit code and the output that it printed.
func Exits(code int32, output string) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Exit(p, code, output, at) })
}

// stops ends all containers of the pod. The main container ends with the given exit code, and the others by SIGTERM.
func stops(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Stop(p, code, at) })
}

// EndsSidecars ends all containers of the pod except its main container. They end with the given exit code.
func EndsSidecars(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.EndSidecars(p, code, at) })
}

// RestartsInPlace ends the main container with an exit code and restarts it in the same pod.
func RestartsInPlace(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Restart(p, code, at) })
}

// LosesLabel removes a label from the pod, as a user can do.
func LosesLabel(label string) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		changed := pod.DeepCopy()
		delete(changed.Labels, label)
		c.Put(changed)
		return nil
	}
}

var (
	// Runs binds the pod to a node of its own and starts its containers.
	Runs = changes(func(p *corev1.Pod, at time.Time) { kubelet.Run(p, nodeOf(p), at) })
	// IsRejected makes the kubelet reject the pod before its containers start.
	IsRejected = changes(func(p *corev1.Pod, _ time.Time) { kubelet.Reject(p, nodeOf(p)) })
	// RunsOutOfMemory makes the kernel kill the main container because of its memory limit.
	RunsOutOfMemory = changes(kubelet.KillForMemory)
	// RunsOutOfStorage makes the kubelet evict the pod because it exceeds its ephemeral-storage limit.
	RunsOutOfStorage = changes(kubelet.EvictForStorage)
	// IsShutDown shuts down the node of the pod. The program saves its work and exits with 0.
	IsShutDown = changes(kubelet.ShutDownNode)
	// LosesItsContainers restarts the node of the pod without a graceful shutdown, so that nobody knows how the
	// containers ended.
	LosesItsContainers = changes(kubelet.LoseContainers)
	// IsDeleted deletes the pod gracefully, as a user can do.
	IsDeleted = removes(client.DeleteOptions{})
	// Vanishes deletes the pod by force. Unless a finalizer keeps the pod, nothing is left of it.
	Vanishes = removes(client.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	// IsPreempted makes the scheduler preempt the pod.
	IsPreempted = changes(kubelet.Preempt).then(IsDeleted)
	// LosesItsNode makes the node of the pod unreachable, so that Kubernetes deletes the pod. No kubelet confirms the
	// deletion.
	LosesItsNode = changes(kubelet.LoseNode).then(IsDeleted)
)

// Ends returns the next action of the kubelet on a pod that is being deleted. First the kubelet stops the containers,
// and then it removes the pod. Nil means that the kubelet has nothing to do or that the node is unreachable.
func Ends(pod *corev1.Pod) Mishap {
	switch {
	case pod.DeletionTimestamp == nil || IsHeldByLostNode(pod):
		return nil
	case pod.Status.Phase != corev1.PodRunning && IsLetGo(pod):
		return nil
	case pod.Status.Phase != corev1.PodRunning:
		return Vanishes
	case pod.Labels[batchv1beta1.LabelReplicaIndex] == "0":
		return stops(0) // the program of index 0 handles SIGTERM and saves its work
	default:
		return stops(kubelet.ExitTerminated) // the other programs do not handle SIGTERM
	}
}

// IsHeldByLostNode reports whether an object is a pod that is being deleted and whose node is unreachable.
func IsHeldByLostNode(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil {
		return false
	}
	return policy.ConditionOf(pod, corev1.DisruptionTarget).Reason == "DeletionByTaintManager"
}
