package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// Mishap is what may happen to a pod. It returns an error if the API server refuses it.
type Mishap func(*Cluster, *corev1.Pod) error

// changes returns a mishap that changes the status of the pod.
func changes(how func(*corev1.Pod, time.Time)) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		c.Change(pod, func(p *corev1.Pod) { how(p, c.clock.Now()) })
		return nil
	}
}

// then returns a mishap that is followed by another.
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

// Exits ends the main container, which has printed some output.
func Exits(code int32, output string) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Exit(p, code, output, at) })
}

// stops ends all containers of the pod, the main one with an exit code.
func stops(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Stop(p, code, at) })
}

// EndsSidecars ends what runs beside the main container, with an exit code.
func EndsSidecars(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.EndSidecars(p, code, at) })
}

// RestartsInPlace ends the main container, and runs it again in the same pod.
func RestartsInPlace(code int32) Mishap {
	return changes(func(p *corev1.Pod, at time.Time) { kubelet.Restart(p, code, at) })
}

// LosesLabel lets somebody take a label off the pod.
func LosesLabel(label string) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		changed := pod.DeepCopy()
		delete(changed.Labels, label)
		c.Put(changed)
		return nil
	}
}

var (
	// Runs binds the pod to a node of its own, and runs it there.
	Runs = changes(func(p *corev1.Pod, at time.Time) { kubelet.Run(p, nodeOf(p), at) })
	// IsRejected lets the node refuse the pod, which was about to start.
	IsRejected = changes(func(p *corev1.Pod, _ time.Time) { kubelet.Reject(p, nodeOf(p)) })
	// RunsOutOfMemory ends the main container for its memory.
	RunsOutOfMemory = changes(kubelet.KillForMemory)
	// RunsOutOfStorage evicts the pod for its own use of storage.
	RunsOutOfStorage = changes(kubelet.EvictForStorage)
	// IsShutDown lets the node shut down, at which the program saves its work and exits with 0.
	IsShutDown = changes(kubelet.ShutDownNode)
	// IsDeleted lets somebody delete the pod.
	IsDeleted = removes(client.DeleteOptions{})
	// Vanishes lets somebody delete the pod by force, so that nothing is left to be seen of it.
	Vanishes = removes(client.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	// IsPreempted lets the scheduler take the place of the pod.
	IsPreempted = changes(kubelet.Preempt).then(IsDeleted)
	// LosesItsNode lets the node stop to answer.
	LosesItsNode = changes(kubelet.LoseNode).then(IsDeleted)
)

func nodeOf(pod *corev1.Pod) string { return "node-of-" + pod.Name }

// Ends returns what a kubelet does next about a pod that is being deleted, nil for nothing: it ends the containers, and
// then lets go of the pod. A node that does not answer does neither.
func Ends(pod *corev1.Pod) Mishap {
	switch {
	case pod.DeletionTimestamp == nil || IsHeldByLostNode(pod):
		return nil
	case pod.Status.Phase != corev1.PodRunning && IsLetGo(pod):
		return nil
	case pod.Status.Phase != corev1.PodRunning:
		return Vanishes
	case pod.Labels[batchv1beta1.LabelReplicaIndex] == "0":
		return stops(0) // one program saves its work,
	default:
		return stops(kubelet.ExitTerminated) // the next does not know the signal
	}
}

// IsHeldByLostNode reports whether an object is a pod that is to go, and whose node does not answer.
func IsHeldByLostNode(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByTaintManager"
	})
}
