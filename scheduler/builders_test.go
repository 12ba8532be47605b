package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func cpu(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
}

// until returns the duration from now to the given time. If the time is zero, which means never, until returns 0.
func until(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(now)
}

// newTestReconciler returns a reconciler whose clock shows the test time, which is the variable now.
func newTestReconciler(c client.Client, e engine) *reconciler {
	return &reconciler{
		client: c, reader: c, engine: e, events: events.NewFakeRecorder(10), clock: testclock.NewFakePassiveClock(now),
	}
}

// ensureEngine reads and writes the objects of the engine as a reconcile does. It returns the changes, each with the
// error that its write caused.
func ensureEngine(t *testing.T, c client.Client, e engine, view queueView) *engineChanges {
	t.Helper()
	r := newTestReconciler(c, e)
	if err := r.observeEngine(t.Context(), &view); err != nil {
		t.Fatal(err)
	}
	changes := ensure(e, view, now)
	r.writeEngine(t.Context(), view, changes)
	return changes
}

// newGroup returns an admitted group in the queue "lab" that needs the given number of pods and has the given pods.
func newGroup(name string, needed int32, pods ...*corev1.Pod) groupView {
	g := groupView{
		Group: &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(now)},
			Spec:       v1beta1.PodGroupSpec{MinMember: needed, Queue: "lab"},
		},
		Selected: true, Admission: metav1.Condition{Status: metav1.ConditionTrue},
	}
	for i, pod := range pods {
		pod = pod.DeepCopy()
		pod.Namespace, pod.Name = "team", fmt.Sprintf("%s-%d", name, i)
		g.Pods = append(g.Pods, pod)
	}
	return g
}

// unselected returns the group as if the queue did not select the namespace of the group.
func (g groupView) unselected() groupView {
	g.Selected, g.Admission.Status = false, metav1.ConditionFalse
	return g
}

// ofClass returns the view of a group whose group in the engine has the given PriorityClass.
func (g groupView) ofClass(class string) groupView {
	g.ClassInForce = class
	return g
}

// ofOneClass returns the view of a group in an engine that schedules only pods with the PriorityClass of their group.
func (g groupView) ofOneClass() groupView {
	g.NeedsOneClass = true
	return g
}

// withRoles returns the group with the given roles.
func (g groupView) withRoles(roles ...v1beta1.PodGroupRole) groupView {
	g.Group.Spec.Roles = roles
	return g
}

func (g groupView) withPriority(priority int32) groupView {
	g.Group.Spec.Priority = &priority
	return g
}

func (g groupView) after(d time.Duration) groupView {
	g.Group.CreationTimestamp = metav1.NewTime(now.Add(d))
	return g
}

// newPod returns a pod that requests one CPU and was created an hour ago, with the given changes.
func newPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu("1")}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func gated(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1beta1.QueueGate}}
}

func withGPU(pod *corev1.Pod) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1"),
	}
}

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now)) }

func failed(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }

// ofCPUs returns a change that makes a pod request the quantity of CPUs.
func ofCPUs(quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = cpu(quantity) }
}

func grouped(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }

func extra(pod *corev1.Pod) { pod.Annotations = map[string]string{v1beta1.AnnotationExtra: "true"} }

// released marks the pod as released: the controller has removed its gate.
func released(pod *corev1.Pod) {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.AnnotationReleased, "true")
}

// onNode sets spec.nodeName, as anybody who creates a pod can do. Unlike a scheduler, it does not set the condition
// PodScheduled.
func onNode(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" }

func bound(pod *corev1.Pod) {
	onNode(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
}

func running(pod *corev1.Pod) {
	bound(pod)
	pod.Status.Phase = corev1.PodRunning
}

func succeeded(pod *corev1.Pod) {
	bound(pod)
	pod.Status.Phase = corev1.PodSucceeded
}

func unschedulable(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available",
	}}
}

func withRole(role string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[v1beta1.LabelRole] = role }
}

func ofClass(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

func newQueue(change func(*v1beta1.QueueSpec)) *v1beta1.Queue {
	queue := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "lab", Generation: 2},
		Spec:       v1beta1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
	}
	if change != nil {
		change(&queue.Spec)
	}
	return queue
}
