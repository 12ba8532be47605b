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

	"tensorstack.dev/jobs/common/control"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

// TestQueue lists what happens to jobs and to their pods, and how soon the job is reconciled then.
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
	trainingJob := func(resourceVersion string) *corev1.Pod { // whose kind does not matter
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
		{"a pod is created", []happens{created(version("1"), false)}, newJob},
		{"a pod begins to run", []happens{updated(version("1"), version("2", running))}, newJob},
		{"a pod succeeds", []happens{updated(version("1", running), version("2", exited(0)))}, newJob},
		{"a pod fails", []happens{updated(version("1", running), version("2", exited(1)))}, urgentPriority},
		{
			"the main container fails, and a sidecar runs on",
			[]happens{updated(version("1", running), version("2", exited(1), sidecarRunning))},
			urgentPriority,
		},
		{
			"the main container succeeds, and a sidecar runs on",
			[]happens{updated(version("1", running), version("2", exited(0), sidecarRunning))},
			newJob,
		},
		{
			"something else changes of a pod that has failed",
			[]happens{updated(version("1", exited(1)), version("2", exited(1)))},
			newJob,
		},
		{"a pod is to go", []happens{updated(version("1", running), version("2", running, deleting))}, urgentPriority},
		{
			"a pod that has succeeded is to go",
			[]happens{updated(version("1", exited(0)), version("2", exited(0), deleting))},
			newJob,
		},
		{"a pod that ran is gone", []happens{gone(version("1", running))}, urgentPriority},
		{"a pod that has failed is gone", []happens{gone(version("1", exited(1)))}, urgentPriority},
		{"a pod that has succeeded is gone", []happens{gone(version("1", exited(0)))}, newJob},
		{"a pod that has failed is found at the start", []happens{created(version("1", exited(1)), true)}, atStart},
		{"the informer tells again of a pod", []happens{updated(version("1", running), version("1", running))}, atStart},
		{
			"a pod is found at the start, and fails",
			[]happens{created(version("1", running), true), updated(version("1", running), version("2", exited(1)))},
			urgentPriority,
		},
		{"the user edits the job", []happens{edited(trainingJob("1"), trainingJob("2"))}, urgentPriority},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := control.Options(1)
			q := options.NewQueue(t.Name(), options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
			defer q.ShutDown()
			for _, happens := range test.happens {
				happens(q)
			}
			if q.Len() != 1 {
				t.Fatalf("%d jobs are in the queue", q.Len())
			}
			request, priority, _ := q.GetWithPriority()
			want := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "job"}}
			if diff := cmp.Diff(want, request); diff != "" {
				t.Error("another job is reconciled (-want +got):\n" + diff)
			}
			if priority != test.want {
				t.Errorf("the priority is %d, not %d", priority, test.want)
			}
		})
	}
}

// A job that wakes urgently goes before new jobs.
func TestPriorityOfWakingUp(t *testing.T) {
	t.Parallel()
	diff(t, "priority", 0, priorityOf(plan.Decision{}))
	diff(t, "priority of an urgent job", urgentPriority, priorityOf(plan.Decision{Urgent: true}))
}
