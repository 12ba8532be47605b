package controller

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
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
)

// TestQueue checks the priority with which events of jobs and pods enqueue the job.
func TestQueue(t *testing.T) {
	const newJob, atStart = 0, handler.LowPriority
	r := &Reconciler[framework.Job]{
		gvk: schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"},
	}
	version := func(resourceVersion string, options ...podOption) *corev1.Pod {
		p := pod("job-worker-0", options...)
		p.ResourceVersion = resourceVersion
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "test/v1", Kind: "TestJob", Name: "job", Controller: new(true)},
		}
		return p
	}
	trainingJob := func(resourceVersion string) *corev1.Pod { // the kind of the object does not matter
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job", ResourceVersion: resourceVersion}}
	}

	type happens = func(queue)
	created := func(pod *corev1.Pod, atStart bool) happens {
		return func(q queue) {
			r.podEvents().Create(t.Context(), ctrlevent.CreateEvent{Object: pod, IsInInitialList: atStart}, q)
		}
	}
	updated := func(before, after *corev1.Pod) happens {
		return func(q queue) {
			r.podEvents().Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	gone := func(pod *corev1.Pod) happens {
		return func(q queue) { r.podEvents().Delete(t.Context(), ctrlevent.DeleteEvent{Object: pod}, q) }
	}
	edited := func(before, after *corev1.Pod) happens {
		return func(q queue) {
			changesOfUser().Update(t.Context(), ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	for _, test := range []struct {
		name    string
		happens []happens
		want    int
	}{
		{"a created pod is not urgent", []happens{created(version("1"), false)}, newJob},
		{"a pod that starts to run is not urgent", []happens{updated(version("1"), version("2", running))}, newJob},
		{"a pod that succeeds is not urgent", []happens{updated(version("1", running), version("2", exited(0)))}, newJob},
		{"a pod that fails is urgent", []happens{updated(version("1", running), version("2", exited(1)))}, urgentPriority},
		{
			"a main container that fails is urgent although a sidecar still runs",
			[]happens{updated(version("1", running), version("2", exited(1), sidecarRunning))},
			urgentPriority,
		},
		{
			"a main container that succeeds is not urgent although a sidecar still runs",
			[]happens{updated(version("1", running), version("2", exited(0), sidecarRunning))},
			newJob,
		},
		{
			"another change of a failed pod is not urgent",
			[]happens{updated(version("1", exited(1)), version("2", exited(1)))},
			newJob,
		},
		{
			"the deletion of a running pod is urgent",
			[]happens{updated(version("1", running), version("2", running, deleting))},
			urgentPriority,
		},
		{
			"the deletion of a succeeded pod is not urgent",
			[]happens{updated(version("1", exited(0)), version("2", exited(0), deleting))},
			newJob,
		},
		{"a running pod that is gone is urgent", []happens{gone(version("1", running))}, urgentPriority},
		{"a failed pod that is gone is urgent", []happens{gone(version("1", exited(1)))}, urgentPriority},
		{"a succeeded pod that is gone is not urgent", []happens{gone(version("1", exited(0)))}, newJob},
		{"a failed pod in the initial list has low priority", []happens{created(version("1", exited(1)), true)}, atStart},
		{
			"a resync of the informer has low priority",
			[]happens{updated(version("1", running), version("1", running))},
			atStart,
		},
		{
			"a pod of the initial list that fails later is urgent",
			[]happens{created(version("1", running), true), updated(version("1", running), version("2", exited(1)))},
			urgentPriority,
		},
		{"a change of the job by its user is urgent", []happens{edited(trainingJob("1"), trainingJob("2"))}, urgentPriority},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := loop.Options(1)
			q := options.NewQueue(t.Name(), options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
			defer q.ShutDown()
			for _, happens := range test.happens {
				happens(q)
			}
			if q.Len() != 1 {
				t.Fatalf("%d jobs are in the queue, want 1", q.Len())
			}
			request, priority, _ := q.GetWithPriority()
			want := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "job"}}
			if diff := cmp.Diff(want, request); diff != "" {
				t.Error("unexpected request (-want +got):\n" + diff)
			}
			if priority != test.want {
				t.Errorf("the priority is %d, want %d", priority, test.want)
			}
		})
	}
}

// A job that is requeued urgently is reconciled before new jobs.
func TestPriorityOfARequeue(t *testing.T) {
	t.Parallel()
	diff(t, "priority", 0, priorityOf(plan.Decision{}))
	diff(t, "priority of an urgent job", urgentPriority, priorityOf(plan.Decision{Facts: decide.Facts{Urgent: true}}))
}
