package scheduler

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestWritesAreShownOnceTheCacheHasNoReplacedVersion(t *testing.T) {
	t.Parallel()
	pod := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		queue  string
		cached *corev1.Pod
		fails  bool
		want   bool
	}{
		"a write is not shown while the cache has the old version": {queue: "lab", cached: pod("1")},
		"a write is not shown while the cache cannot be read":      {queue: "lab", cached: pod("2"), fails: true},
		"a write is shown when the cache has the new version":      {queue: "lab", cached: pod("2"), want: true},
		"a write is shown when the cache has a later version":      {queue: "lab", cached: pod("3"), want: true},
		"a write is shown when the object is gone":                 {queue: "lab", want: true},
		"another queue does not wait for the write":                {queue: "other", cached: pod("1"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w writes
			w.note("lab", &corev1.Pod{}, pod("1"), pod("2"))
			cache := interceptor.NewClient(newTestClient(t).(client.WithWatch), interceptor.Funcs{
				Get: func(
					_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption,
				) error {
					switch {
					case tc.fails:
						return context.DeadlineExceeded
					case tc.cached == nil:
						return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
					}
					tc.cached.DeepCopyInto(into.(*corev1.Pod))
					return nil
				},
			})
			for range 2 { // a second call must return the same result
				got, err := w.areShown(t.Context(), cache, tc.queue)
				if got != tc.want || (err != nil) != tc.fails {
					t.Errorf("areShown returned %v and error %v, want %v and an error: %v", got, err, tc.want, tc.fails)
				}
			}
		})
	}
}

func TestWritesThatChangeNothingAreNotAwaited(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", ResourceVersion: "1"}}
	var w writes
	w.note("lab", &corev1.Pod{}, pod, pod)
	if shown, err := w.areShown(t.Context(), newTestClient(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "pod",
	}}), "lab"); err != nil || !shown {
		t.Errorf("areShown returned %v and error %v, want true", shown, err)
	}
}

// A released pod uses up the quota, even while the cache does not show that it was released.
func TestAQueueKeepsItsQuotaWhileTheCacheIsStale(t *testing.T) {
	t.Parallel()
	pod := func(name string) *corev1.Pod {
		return newPod(gated, func(pod *corev1.Pod) {
			pod.Namespace, pod.Name = "team", name+"-0"
			pod.Labels = map[string]string{v1beta1.LabelGroupName: name, v1beta1.LabelQueue: "lab"}
		})
	}
	live := newTestClient(t, newGroup("first", 1).Group, newGroup("urgent", 1).withPriority(11).Group, pod("first"))
	var queue v1beta1.Queue
	if err := live.Get(t.Context(), client.ObjectKey{Name: "lab"}, &queue); err != nil {
		t.Fatal(err)
	}
	queue.Spec.Quota = &v1beta1.QueueQuota{Requests: cpu("1")}
	if err := live.Update(t.Context(), &queue); err != nil {
		t.Fatal(err)
	}
	// frozen is the version of the pod that the stale cache has. Nil means that the cache is current.
	var frozen *corev1.Pod
	freeze := func() {
		frozen = &corev1.Pod{}
		if err := live.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "first-0"}, frozen); err != nil {
			t.Fatal(err)
		}
	}
	cached := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption,
		) error {
			if pod, isPod := into.(*corev1.Pod); isPod && frozen != nil && key.Name == frozen.Name {
				frozen.DeepCopyInto(pod)
				return nil
			}
			return c.Get(ctx, key, into, o...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			err := c.List(ctx, list, o...)
			if pods, arePods := list.(*corev1.PodList); arePods && frozen != nil {
				for i := range pods.Items {
					if pods.Items[i].Name == frozen.Name {
						pods.Items[i] = *frozen.DeepCopy()
					}
				}
			}
			return err
		},
	})
	r := newTestReconciler(cached, native{})
	reconcile := func() reconcile.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	isGated := func(name string) bool {
		t.Helper()
		var pod corev1.Pod
		if err := live.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name + "-0"}, &pod); err != nil {
			t.Fatal(err)
		}
		return len(pod.Spec.SchedulingGates) > 0
	}

	freeze()
	reconcile()
	if isGated("first") {
		t.Fatal("the pod of the first group was not released")
	}
	if err := live.Create(t.Context(), pod("urgent")); err != nil {
		t.Fatal(err)
	}
	if result := reconcile(); result.RequeueAfter != cacheDelay || !isGated("urgent") {
		t.Errorf("the queue is requeued after %s, want %s; the pod of the urgent group is gated: %v, want true",
			result.RequeueAfter, cacheDelay, isGated("urgent"))
	}
	frozen = nil
	reconcile()
	if !isGated("urgent") {
		t.Error("the pod of the urgent group was released, which exceeds the quota")
	}
}
