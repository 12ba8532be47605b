// Package jobtest builds the objects of one job for the tests of its controller: pods in any state, its TensorBoard and
// its PodGroup.
package jobtest

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// Now is the current time of every test.
var Now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// MainContainer is the name of the main container of every pod.
const MainContainer = "main"

// PodOption changes a pod.
type PodOption func(*corev1.Pod)

// Pod returns a pending pod of the first attempt without a node.
func Pod(name string, options ...PodOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", CreationTimestamp: metav1.NewTime(Now), Labels: map[string]string{},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: MainContainer}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	Of("0")(p)
	for _, option := range options {
		option(p)
	}
	return p
}

// Ago returns a time before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

// Again sets the attempt of a pod that was created after a number of restarts of all replicas together.
func Again(times int32) PodOption { return Of(strconv.Itoa(int(times))) }

// AgainAlone sets the attempt of a pod that was created after a number of restarts of only its replica.
func AgainAlone(times int32) PodOption {
	if times == 0 {
		return Of("0")
	}
	return Of("0." + strconv.Itoa(int(times)))
}

// Of sets the attempt label and the UID of the pod.
func Of(attempt string) PodOption {
	return func(p *corev1.Pod) {
		p.Labels[batchv1beta1.LabelAttempt] = attempt
		p.UID = types.UID(fmt.Sprintf("%s-uid-%s", p.Name, attempt))
	}
}

// OnNode assigns the pod to a node.
func OnNode(node string) PodOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// Running makes the pod and all its containers run and become ready. The containers started an hour before Now.
func Running(p *corev1.Pod) { kubelet.Run(p, p.Spec.NodeName, Now.Add(-time.Hour)) }

// Exited ends the main container at Now with an exit code. The pod ends if it has no other running container.
func Exited(code int32) PodOption { return ExitedAgo(code, 0) }

// ExitedAgo is like Exited, but the main container ends at a time before Now.
func ExitedAgo(code int32, before time.Duration) PodOption {
	return func(p *corev1.Pod) { kubelet.Exit(p, code, "", Now.Add(-before)) }
}

// Printed sets the termination message of every container that has ended.
func Printed(output string) PodOption {
	return func(p *corev1.Pod) {
		for i := range p.Status.ContainerStatuses {
			if ended := p.Status.ContainerStatuses[i].State.Terminated; ended != nil {
				ended.Message = output
			}
		}
	}
}

// SidecarRunning adds a running sidecar, which keeps the pod running after the main container has ended.
func SidecarRunning(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
}

// Deleting marks the pod as deleted at Now, with a grace period of 30 seconds.
func Deleting(p *corev1.Pod) {
	p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	p.DeletionTimestamp = new(metav1.NewTime(Now.Add(30 * time.Second)))
}

// Disrupted marks the pod as preempted.
func Disrupted(p *corev1.Pod) { kubelet.Preempt(p, Now) }

// OnLostNode marks the node of the pod as lost.
func OnLostNode(p *corev1.Pod) { kubelet.LoseNode(p, Now) }

// Rejected marks the pod as rejected by the kubelet before any container was started.
func Rejected(p *corev1.Pod) { kubelet.Reject(p, p.Spec.NodeName) }

// Unreachable sets the phase of the pod to Unknown.
func Unreachable(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }

// CreatedAgo sets when the pod was created.
func CreatedAgo(before time.Duration) PodOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = Ago(before) }
}

// WithUnhealthyDevice gives the main container an unhealthy device of the resource test/device. The main container must
// have a status.
func WithUnhealthyDevice(id string) PodOption {
	return func(p *corev1.Pod) { kubelet.BreakDevice(p, "test/device", corev1.ResourceID(id)) }
}

// Avoiding marks the pod as one that avoids nodes. The argument is the node that the job has avoided for the longest
// time.
func Avoiding(node string) PodOption {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{batchv1beta1.AnnotationAvoidsNode: node}
	}
}

// Unschedulable marks the pod as unschedulable.
func Unschedulable(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available",
	})
}

// Diff reports a difference between want and got as an error of the test.
func Diff(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, options...); d != "" {
		t.Errorf("unexpected %s (-want +got):\n%s", what, d)
	}
}

// AllocatesLinearly reports whether allocations grow at most linearly with the number of replicas. The parameter run
// returns the function to measure, first for a small number of replicas and then for a large number. The second
// result describes the measurements, for the message of a failed test.
func AllocatesLinearly(run func(replicas int32) func()) (linear bool, measured string) {
	// The margin allows for longer names of replicas with a higher index, and for sizes of maps, which are powers of 2.
	const few, many, margin = 100, 1000, 1.5
	objectsOfFew, bytesOfFew := allocated(run(few))
	objects, bytes := allocated(run(many))
	const limit = margin * many / few
	linear = objects <= limit*objectsOfFew && bytes <= limit*bytesOfFew
	return linear, fmt.Sprintf("%d replicas need %.0f allocations of %.0f bytes in total, %d need %.0f of %.0f",
		few, objectsOfFew, bytesOfFew, many, objects, bytes)
}

// allocated returns how many objects and how many bytes a function allocates.
func allocated(run func()) (objects, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	objects = testing.AllocsPerRun(1, run) // runs the function twice, the first time to warm up
	runtime.ReadMemStats(&after)
	return objects, float64(after.TotalAlloc-before.TotalAlloc) / 2
}
