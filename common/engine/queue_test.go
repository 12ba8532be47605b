package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/framework"
)

// TestQueue lists what happens to jobs and to their pods, and how soon the job is reconciled then.
func TestQueue(t *testing.T) {
	const newJob, atStart = 0, handler.LowPriority
	r := &Reconciler[framework.Job]{gvk: schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}}
	pods, user := r.podEvents(), changesOfUser()
	pod := func(phase corev1.PodPhase, resourceVersion string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "job-worker-0", ResourceVersion: resourceVersion,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "test/v1", Kind: "TestJob", Name: "job", Controller: new(true)}},
			},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	trainingJob := func(resourceVersion string) *corev1.Pod { // whose kind does not matter
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job", ResourceVersion: resourceVersion}}
	}
	for _, test := range []struct {
		name    string
		happens func(queue)
		want    int
	}{
		{"a pod is created", func(q queue) {
			pods.Create(t.Context(), ctrlevent.CreateEvent{Object: pod(corev1.PodPending, "1")}, q)
		}, newJob},
		{"a pod begins to run", func(q queue) {
			pods.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: pod(corev1.PodPending, "1"), ObjectNew: pod(corev1.PodRunning, "2")}, q)
		}, newJob},
		{"a pod succeeds", func(q queue) {
			pods.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: pod(corev1.PodRunning, "1"), ObjectNew: pod(corev1.PodSucceeded, "2")}, q)
		}, newJob},
		{"a pod fails", func(q queue) {
			pods.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: pod(corev1.PodRunning, "1"), ObjectNew: pod(corev1.PodFailed, "2")}, q)
		}, urgentPriority},
		{"something changes of a pod that has failed", func(q queue) {
			pods.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: pod(corev1.PodFailed, "1"), ObjectNew: pod(corev1.PodFailed, "2")}, q)
		}, newJob},
		{"a pod is gone", func(q queue) {
			pods.Delete(t.Context(), ctrlevent.DeleteEvent{Object: pod(corev1.PodRunning, "1")}, q)
		}, urgentPriority},
		{"a pod that has failed is found at the start", func(q queue) {
			pods.Create(t.Context(), ctrlevent.CreateEvent{Object: pod(corev1.PodFailed, "1"), IsInInitialList: true}, q)
		}, atStart},
		{"a pod fails of a job that waits since the start", func(q queue) {
			pods.Create(t.Context(), ctrlevent.CreateEvent{Object: pod(corev1.PodRunning, "1"), IsInInitialList: true}, q)
			pods.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: pod(corev1.PodRunning, "1"), ObjectNew: pod(corev1.PodFailed, "2")}, q)
		}, urgentPriority},
		{"the user changes the job", func(q queue) {
			user.Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: trainingJob("1"), ObjectNew: trainingJob("2")}, q)
		}, urgentPriority},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := priorityqueue.New[reconcile.Request](t.Name())
			defer q.ShutDown()
			test.happens(q)
			request, priority, _ := q.GetWithPriority()
			want := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "job"}}
			if diff := cmp.Diff(want, request); diff != "" {
				t.Error("Another job is reconciled (-want +got):\n" + diff)
			}
			if priority != test.want {
				t.Errorf("The priority is %d, not %d", priority, test.want)
			}
		})
	}
}
