package scheduler

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// gpus is the name of the resource that stands for the devices of the DeviceClass gpu in a quota.
const gpus corev1.ResourceName = "gpu.deviceclass.resource.k8s.io/devices"

// exactly returns a request for devices of a DeviceClass.
func exactly(class string, n int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n,
	}}
}

// first returns a request with alternatives. The claim gets the devices of the first alternative that is available.
func first(requests ...resourcev1.DeviceRequest) resourcev1.DeviceRequest {
	var all resourcev1.DeviceRequest
	for _, r := range requests {
		all.FirstAvailable = append(all.FirstAvailable, resourcev1.DeviceSubRequest{
			DeviceClassName: r.Exactly.DeviceClassName, AllocationMode: r.Exactly.AllocationMode, Count: r.Exactly.Count,
		})
	}
	return all
}

func newClaim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

func TestDevicesOfAClaim(t *testing.T) {
	t.Parallel()
	all := exactly("gpu", 0)
	all.Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	for name, tc := range map[string]struct {
		requests []resourcev1.DeviceRequest
		want     map[corev1.ResourceName]int64
	}{
		"a claim without requests has no devices": {},
		"the requests of a class add up": {
			requests: []resourcev1.DeviceRequest{exactly("gpu", 2), exactly("gpu", 3), exactly("nic", 1)},
			want:     map[corev1.ResourceName]int64{gpus: 5, devicesOfClass("nic"): 1},
		},
		"a request for more devices than a claim can have gets as many as a claim can have": {
			requests: []resourcev1.DeviceRequest{
				first(exactly("gpu", 8), exactly("gpu", math.MaxInt64)), exactly("gpu", math.MaxInt64),
			},
			want: map[corev1.ResourceName]int64{gpus: 32},
		},
		"a request for all devices can get as many as a claim can have": {
			requests: []resourcev1.DeviceRequest{all}, want: map[corev1.ResourceName]int64{gpus: 32},
		},
		"of alternatives, the largest one of each class counts": {
			requests: []resourcev1.DeviceRequest{
				first(exactly("gpu", 1), exactly("gpu", 4), exactly("old", 8), exactly("gpu", 2)),
			},
			want: map[corev1.ResourceName]int64{gpus: 4, devicesOfClass("old"): 8},
		},
		"alternatives add up with other requests": {
			requests: []resourcev1.DeviceRequest{first(exactly("gpu", 2)), exactly("gpu", 1)},
			want:     map[corev1.ResourceName]int64{gpus: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim("claim", tc.requests...)
			for _, claim := range []*resourcev1.ResourceClaim{claim, cached(t, claim)} {
				var got map[corev1.ResourceName]int64
				for name, n := range devicesOf(claim) {
					if got == nil {
						got = map[corev1.ResourceName]int64{}
					}
					got[name] = n.Value()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("unexpected devices (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// claiming returns a change that sets the claims of a pod.
func claiming(entries ...corev1.PodResourceClaim) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.ResourceClaims = entries }
}

func named(claim string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: "entry", ResourceClaimName: &claim}
}

// ofTemplate returns an entry of spec.resourceClaims whose claim is created from a template.
func ofTemplate() corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("template")}
}

// generated returns a change that records a claim in the status of a pod. The parameter is the name of the claim that
// Kubernetes created from the template. Nil means that the pod needs no claim.
func generated(claim *string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: claim}}
	}
}

// recorded returns a change that marks a pod as released with the given devices, as JSON.
func recorded(devices string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1beta1.AnnotationReleased, devices)
	}
}

// requestingGPUs returns a change that makes the container of a pod request n GPUs as a resource, without a claim.
func requestingGPUs(n string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			"deviceclass.resource.kubernetes.io/gpu": resource.MustParse(n),
		}
	}
}

// of4GPUs returns a queue with a quota of 4 GPUs.
func of4GPUs() *v1beta1.Queue {
	return newQueue(func(s *v1beta1.QueueSpec) {
		s.Quota = &v1beta1.QueueQuota{Requests: corev1.ResourceList{gpus: resource.MustParse("4")}}
	})
}

func TestDevicesOfPodsCountAgainstTheQuota(t *testing.T) {
	t.Parallel()
	var tooMany []resourcev1.DeviceRequest
	for i := range maxClasses + 1 {
		tooMany = append(tooMany, exactly(fmt.Sprint("class-", i), 1))
	}
	for name, tc := range map[string]struct {
		pods   []*corev1.Pod
		claims []client.Object
		// want lists the names of the released pods. The shortage is the resource or the claim that the group waits for.
		want    []string
		waiting shortage
	}{
		"pods whose claims fit are released": {
			pods:   []*corev1.Pod{newPod(gated, claiming(named("a"))), newPod(gated, claiming(named("b")))},
			claims: []client.Object{newClaim("a", exactly("gpu", 2)), newClaim("b", exactly("gpu", 2))},
			want:   []string{"a-0", "a-1"},
		},
		"pods whose claims do not fit wait": {
			pods:    []*corev1.Pod{newPod(gated, claiming(named("a"))), newPod(gated, claiming(named("b")))},
			claims:  []client.Object{newClaim("a", exactly("gpu", 2)), newClaim("b", exactly("gpu", 3))},
			waiting: shortage{Resource: gpus},
		},
		"a claim counts for each of its pods": {
			pods:    []*corev1.Pod{newPod(released, claiming(named("a"))), newPod(gated, claiming(named("a")))},
			claims:  []client.Object{newClaim("a", exactly("gpu", 3))},
			waiting: shortage{Resource: gpus},
		},
		"a claim that was created from a template counts": {
			pods:    []*corev1.Pod{newPod(gated, claiming(ofTemplate()), generated(new("a")))},
			claims:  []client.Object{newClaim("a", exactly("gpu", 5))},
			waiting: shortage{Resource: gpus},
		},
		"a pod waits for the claim of its template, although another claim has the name of the entry": {
			pods:    []*corev1.Pod{newPod(gated, claiming(ofTemplate()))},
			claims:  []client.Object{newClaim("gpu", exactly("gpu", 1))},
			waiting: shortage{Pod: "a-0", Claim: "of a template"},
		},
		"a pod does not wait for a claim that it does not need": {
			pods: []*corev1.Pod{newPod(gated, claiming(ofTemplate()), generated(nil))}, want: []string{"a-0"},
		},
		"a pod waits for a claim that does not exist": {
			pods:    []*corev1.Pod{newPod(gated), newPod(gated, claiming(named("later")))},
			waiting: shortage{Pod: "a-1", Claim: "later"},
		},
		"a released pod counts the devices that it had, although its claim is gone": {
			pods: []*corev1.Pod{
				newPod(running, recorded(`{"gpu":3,"nic":9}`), claiming(named("gone"))), newPod(gated, claiming(named("a"))),
			},
			claims:  []client.Object{newClaim("a", exactly("gpu", 2))},
			waiting: shortage{Resource: gpus},
		},
		"a released pod counts the devices of a claim that is larger than before": {
			pods: []*corev1.Pod{
				newPod(running, recorded(`{"gpu":1}`), claiming(named("a"))), newPod(gated, claiming(named("b"))),
			},
			claims:  []client.Object{newClaim("a", exactly("gpu", 3)), newClaim("b", exactly("gpu", 2))},
			waiting: shortage{Resource: gpus},
		},
		"the devices that a container of a released pod requests count once": {
			pods: []*corev1.Pod{
				newPod(running, recorded(`{"gpu":3}`), requestingGPUs("2"), claiming(named("a"))),
				newPod(gated, claiming(named("a"))),
			},
			claims: []client.Object{newClaim("a", exactly("gpu", 1))},
			want:   []string{"a-1"},
		},
		"other classes do not count": {
			pods:   []*corev1.Pod{newPod(gated, claiming(named("a")))},
			claims: []client.Object{newClaim("a", exactly("nic", 9))},
			want:   []string{"a-0"},
		},
		"a pod waits indefinitely if it has too many claims": {
			pods:    []*corev1.Pod{newPod(gated, claiming(make([]corev1.PodResourceClaim, maxClaims+1)...))},
			waiting: shortage{Pod: "a-0", Claim: "of a template"},
		},
		"a pod waits indefinitely if its claim has too many classes": {
			pods:    []*corev1.Pod{newPod(gated, claiming(named("a")))},
			claims:  []client.Object{newClaim("a", tooMany...)},
			waiting: shortage{Pod: "a-0", Claim: "a"},
		},
		"devices that a container requests as a resource count": {
			pods:    []*corev1.Pod{newPod(gated, requestingGPUs("5"))},
			waiting: shortage{Resource: gpus},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup("a", int32(len(tc.pods)), tc.pods...)
			for i := range g.Pods {
				g.Pods[i] = cached(t, g.Pods[i])
			}
			view := queueView{Queue: of4GPUs(), Groups: []groupView{g}}
			r := newTestReconciler(throughCache(t, newTestClient(t, tc.claims...)), native{})
			if err := r.countDevices(t.Context(), &view); err != nil {
				t.Fatal(err)
			}
			if isUnknown := tc.waiting.Claim != ""; isUnknown != (until(view.RequeueAt) == claimDelay) {
				t.Errorf("the queue is reconciled again after %s, want %s: %t", until(view.RequeueAt), claimDelay, isUnknown)
			}
			pods, waiting := release(quotaOf(view.Queue), view.Groups, nil)
			var got []string
			for _, pod := range pods {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected pods are released (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.waiting, waiting[g.key()]); diff != "" {
				t.Errorf("the group waits for something else (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExtraPodsWaitForTheirClaims(t *testing.T) {
	t.Parallel()
	g := newGroup("a", 1, newPod(running), newPod(gated, extra, claiming(named("later"))), newPod(gated, extra))
	view := queueView{Queue: of4GPUs(), Groups: []groupView{g}}
	r := newTestReconciler(newTestClient(t), native{})
	if err := r.countDevices(t.Context(), &view); err != nil {
		t.Fatal(err)
	}
	pods, _ := release(quotaOf(view.Queue), view.Groups, nil)
	if len(pods) != 1 || pods[0].Name != "a-2" || until(view.RequeueAt) != claimDelay {
		t.Errorf("released %v and reconciled again after %s, want a-2 and %s", pods, until(view.RequeueAt), claimDelay)
	}
}

// Many pods can share one claim, and a pod can name it many times. So the number of reads must not grow with them.
func TestAClaimOfManyPodsIsReadOnce(t *testing.T) {
	t.Parallel()
	claims := claiming(named("a"), named("a"))
	view := queueView{
		Queue: of4GPUs(), Groups: []groupView{newGroup("a", 1, newPod(gated, claims), newPod(gated, claims))},
	}
	reads := 0
	c := interceptor.NewClient(newTestClient(t, newClaim("a", exactly("gpu", 1))).(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption,
		) error {
			reads++
			return c.Get(ctx, key, into, o...)
		},
	})
	if err := newTestReconciler(c, native{}).countDevices(t.Context(), &view); err != nil || reads != 1 {
		t.Errorf("the claim of two pods is read %d times (%v), want once", reads, err)
	}
}

func TestDevicesOfOrphansAndOfSelectedGroupsCount(t *testing.T) {
	t.Parallel()
	pod := newPod(released, claiming(named("a")))
	pod.Namespace = "team"
	view := queueView{
		Queue:   of4GPUs(),
		Groups:  []groupView{newGroup("a", 1, pod), newGroup("b", 1, pod).unselected()},
		Orphans: []*corev1.Pod{pod},
	}
	r := newTestReconciler(newTestClient(t, newClaim("a", exactly("gpu", 3))), native{})
	if err := r.countDevices(t.Context(), &view); err != nil {
		t.Fatal(err)
	}
	devices := func(pods []*corev1.Pod) int64 {
		n := sumOf(pods)[gpus]
		return n.Value()
	}
	got := []int64{devices(view.Orphans), devices(view.Groups[0].Pods), devices(view.Groups[1].Pods)}
	if diff := cmp.Diff([]int64{3, 3, 0}, got); diff != "" {
		t.Errorf("unexpected devices of the orphan, the selected and the other group (-want +got):\n%s", diff)
	}
	if len(pod.Spec.Containers) != 1 {
		t.Error("the pod in the cache was changed")
	}
}

func TestReleasedPodsRecordTheirDevices(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long.", 50) + "class"
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		want      string
		uncounted bool
	}{
		"a pod without devices":             {pod: newPod(), want: "true"},
		"a pod with a claim":                {pod: newPod(claiming(named("a"))), want: `{"gpu":3}`},
		"a pod with a claim and a resource": {pod: newPod(requestingGPUs("2"), claiming(named("a"))), want: `{"gpu":5}`},
		"a claim of a class with a long name": {
			pod: newPod(claiming(named("long"))), want: `{"` + long + `":1}`, uncounted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup("a", 1, tc.pod)
			queue := of4GPUs()
			queue.Spec.Quota.Requests[devicesOfClass(long)] = resource.MustParse("1")
			view := queueView{Queue: queue, Groups: []groupView{g}}
			c := newTestClient(t, newClaim("a", exactly("gpu", 3)), newClaim("long", exactly(long, 1)))
			r := newTestReconciler(c, native{})
			if err := r.countDevices(t.Context(), &view); err != nil {
				t.Fatal(err)
			}
			pod := view.Groups[0].Pods[0]
			if got := releasedValue(pod); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := pod.Annotations[annotationUncounted] != ""; got != tc.uncounted {
				t.Errorf("the pod is marked as uncounted: %t, want %t", got, tc.uncounted)
			}
		})
	}
}

func TestOnlyQuotasForDevicesReadClaims(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue *v1beta1.Queue
		want  bool
	}{
		"no queue":                {},
		"a queue without a quota": {queue: newQueue(nil)},
		"a quota for CPUs": {queue: newQueue(func(s *v1beta1.QueueSpec) {
			s.Quota = &v1beta1.QueueQuota{Requests: cpu("1")}
		})},
		"a quota for devices": {want: true, queue: newQueue(func(s *v1beta1.QueueSpec) {
			s.Quota = &v1beta1.QueueQuota{Requests: corev1.ResourceList{gpus: resource.MustParse("1")}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := limitsDevices(tc.queue); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
			if got := (volcano{}).gates(tc.queue); got != tc.want {
				t.Errorf("with Volcano, the pods of the queue are gated: %t, want %t", got, tc.want)
			}
		})
	}
}
