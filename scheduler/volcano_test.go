package scheduler

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

func TestCapacityOfVolcanoQueues(t *testing.T) {
	t.Parallel()
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	quotaOf := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	node := func(name string, has corev1.ResourceList) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: has}}
	}
	for name, tc := range map[string]struct {
		quota   corev1.ResourceList
		nodes   []client.Object
		orphans []*corev1.Pod
		want    map[corev1.ResourceName]string
	}{
		"a queue without a quota can have the whole cluster": {
			want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P"},
		},
		"a queue can have its quota, and all of the resources without a quota": {
			quota: quotaOf(gpu, "8"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P", gpu: "8"},
		},
		"a quota of 0 becomes a tiny quantity, since Volcano treats 0 as no limit": {
			quota: quotaOf("cpu", "0"), want: map[corev1.ResourceName]string{"cpu": "1m", "memory": "5P"},
		},
		"a quota for the number of pods is left out, since Volcano does not support it": {
			quota: quotaOf("pods", "3"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P"},
		},
		"a quota for devices of a DeviceClass is left out, since Volcano does not support it": {
			quota: quotaOf(gpus, "3"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P"},
		},
		"pods whose group is gone reduce the quota, since Volcano does not count them": {
			quota: cpu("3"), orphans: []*corev1.Pod{newPod(ofCPUs("2")), newPod(ofCPUs("500m"))},
			want: map[corev1.ResourceName]string{"cpu": "500m", "memory": "5P"},
		},
		"pods whose group is gone can use more than the quota": {
			quota: cpu("3"), orphans: []*corev1.Pod{newPod(ofCPUs("4"))},
			want: map[corev1.ResourceName]string{"cpu": "1m", "memory": "5P"},
		},
		"the resources of all nodes are listed": {
			nodes: []client.Object{node("a", cpu("8")), node("b", quotaOf(gpu, "8")), node("c", quotaOf("hugepages-2Mi", "0"))},
			want:  map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P", gpu: "5P"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: tc.quota} })
			requests := newGroup("a", 1, newPod(func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests = quotaOf("example.org/poison", "1")
			}))
			c := newTestClient(t, tc.nodes...)
			if ensured := ensureEngine(t, c, volcano{}, queueView{
				Queue: queue, Groups: []groupView{requests}, Orphans: tc.orphans,
			}); ensured.QueueErr != nil {
				t.Fatal(ensured.QueueErr)
			}
			var there volcanov1beta1.Queue
			if err := c.Get(t.Context(), client.ObjectKey{Name: queue.Name}, &there); err != nil {
				t.Fatal(err)
			}
			got := map[corev1.ResourceName]string{}
			for name, quantity := range there.Spec.Deserved {
				got[name] = quantity.String()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected capacity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyOwnQueuesOfVolcanoAreChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue string
		owner types.UID
		want  bool
	}{
		"a queue without an owner is left alone":               {queue: "lab"},
		"a queue of an earlier Queue is left alone":            {queue: "lab", owner: "earlier"},
		"the queue of this Queue is changed":                   {queue: "lab", owner: "uid", want: true},
		"the queue default, which Volcano created, is changed": {queue: volcanov1beta1.DefaultQueue, want: true},
		"the queue root, which Volcano created, is changed":    {queue: "root", want: true},
		"a queue default with another owner is left alone":     {queue: volcanov1beta1.DefaultQueue, owner: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = 3 })
			queue.Name, queue.UID = tc.queue, "uid"
			there := &volcanov1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: tc.queue}}
			if tc.owner != "" {
				owner := queue.DeepCopy()
				owner.UID = tc.owner
				there.OwnerReferences = []metav1.OwnerReference{
					*metav1.NewControllerRef(owner, v1beta1.GroupVersion.WithKind("Queue")),
				}
			}
			c := newTestClient(t, there)
			err := ensureEngine(t, c, volcano{}, queueView{Queue: queue}).QueueErr
			if _, isRefused := errors.AsType[*report.RefusedError](err); isRefused == tc.want || !isRefused && err != nil {
				t.Errorf("the queue has the error %v, want a RefusedError: %t", err, !tc.want)
			}
			if err := c.Delete(t.Context(), newQueue(nil)); err != nil { // newTestClient made a Queue with another UID
				t.Fatal(err)
			}
			if err := c.Create(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
			r := &reclaim{client: c, clock: testclock.NewFakePassiveClock(now)}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
				t.Fatal(err)
			}
			isChanged := there.Spec.Priority == 3 && !ptr.Deref(there.Spec.Reclaimable, true)
			isLeftAlone := there.Spec.Priority == 0 && there.Spec.Reclaimable == nil
			if isChanged != tc.want || isLeftAlone == tc.want {
				t.Errorf("the queue is changed: %t, want %t: %+v", isChanged, tc.want, there.Spec)
			}
		})
	}
}
