package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/manager"
)

// long is a text that is too long for the cache to keep.
var long = strings.Repeat("long ", 100_000)

// cached returns an object as the cache keeps it, and checks its size. cached strips the object twice, because
// stripping a stripped object must not change it.
func cached[T client.Object](t *testing.T, object T) T {
	t.Helper()
	var got any = object.DeepCopyObject()
	for range 2 {
		var err error
		if got, err = manager.Strip(strip)(got); err != nil {
			t.Fatal(err)
		}
	}
	content, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if most := 4 << 10; len(content) > most {
		t.Errorf("the cache keeps %d bytes of %T, want at most %d", len(content), object, most)
	}
	return got.(T)
}

// throughCache returns a client that reads stripped objects, as from the cache, and writes to the API server.
func throughCache(t *testing.T, c client.Client) client.Client {
	t.Helper()
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, object, options...)
			strip(object)
			return err
		},
	})
}

// bulky adds fields to a pod. The controller does not read most of these fields.
func bulky(pod *corev1.Pod) {
	pod.Namespace, pod.Name, pod.UID = "team", "pod", "uid"
	pod.Labels["app"] = "training"
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "note", long)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, gang.AnnotationGroup, long)
	pod.Finalizers = []string{"example.org/keep"}
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner-uid"},
	}
	pod.Spec.SchedulerName = v1beta1.SchedulerName
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	main := &pod.Spec.Containers[0]
	main.Name, main.Image, main.Args = "main", "example", []string{long}
	pod.Spec.Containers = append(
		pod.Spec.Containers,
		corev1.Container{Name: "other", Resources: corev1.ResourceRequirements{Requests: cpu("2")}},
	)
	pod.Spec.InitContainers = []corev1.Container{
		{
			Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
			Resources: corev1.ResourceRequirements{Requests: cpu("500m")},
		},
		{
			Name: "fetch",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"example.org/disk": resource.MustParse("3")},
			},
		},
	}
	pod.Status.Message = long
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now)
	}
	pod.Status.Conditions = append(
		pod.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: long},
	)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ImageID: long}}
}

func TestCachedPodsKeepWhatTheControllerReads(t *testing.T) {
	t.Parallel()
	type reading struct {
		Role, Class                                     string
		Gated, Done, Placed, Grouped, Extra, HasDropped bool
		Released, HoldsNode                             bool
		Requests                                        corev1.ResourceList
		WhyUnschedulable                                string
		BoundSince                                      metav1.Time
		Created, Deleted                                any
	}
	read := func(pod *corev1.Pod) reading {
		return reading{
			pod.Labels[v1beta1.LabelRole] + pod.Labels[v1beta1.LabelGroupName] + pod.Labels[v1beta1.LabelQueue],
			pod.Spec.PriorityClassName,
			isGated(pod), isDone(pod), isPlaced(pod), isGrouped(pod), isExtra(pod), dropped([]*corev1.Pod{pod}) != nil,
			wasReleased(pod), occupiesNode(pod),
			requestsOf(pod), whyUnschedulable(pod), metav1.NewTime(
				boundSince([]*corev1.Pod{pod}),
			), pod.CreationTimestamp, pod.DeletionTimestamp,
		}
	}
	for name, changes := range map[string][]func(*corev1.Pod){
		"a new pod": nil,
		"a pod with a role and a queue": {
			withRole("worker"), func(pod *corev1.Pod) { pod.Labels[v1beta1.LabelQueue] = "lab" },
		},
		"a pod with a PriorityClass":         {func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" }},
		"a gated pod":                        {gated},
		"a pod with GPUs":                    {withGPU},
		"a pod in a group of kube-scheduler": {grouped},
		"a bound pod in a group":             {grouped, bound},
		"a released pod":                     {released},
		"an extra pod":                       {extra},
		"a running pod":                      {running},
		"a succeeded pod":                    {succeeded},
		"an unschedulable pod":               {unschedulable},
		"a pod that is being deleted": {
			func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now)) },
		},
		"a pod with pod-level resources": {
			func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("20")} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(append(changes, bulky)...)
			if diff := cmp.Diff(read(pod), read(cached(t, pod))); diff != "" {
				t.Errorf("the pod in the cache differs (-full +cached):\n%s", diff)
			}
		})
	}
}

func TestPodsThatRequestTooManyResourcesBelongToNoGroup(t *testing.T) {
	t.Parallel()
	request := func(quantity string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			requests := maps.Clone(pod.Spec.Containers[0].Resources.Requests)
			for i := range 10_000 {
				requests[corev1.ResourceName(fmt.Sprintf("example.org/%d", i))] = resource.MustParse(quantity)
			}
			pod.Spec.Containers[0].Resources.Requests = requests
		}
	}
	withLabel := func(pod *corev1.Pod) { pod.Labels[v1beta1.LabelGroupName] = "group" }
	got := cached(t, newPod(withLabel, gated, bulky, request("1")))
	if diff := cmp.Diff(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", UID: "uid"}}, got,
	); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
	// Schedulers ignore requests of 0. So a pod with many requests of 0 can be placed, and its other requests must
	// count.
	if got, want := cached(
		t, newPod(withLabel, bulky, request("0")),
	), newPod(withLabel, bulky); !cmp.Equal(requestsOf(want), requestsOf(got)) {
		t.Errorf("the cached pod requests %v, want %v", requestsOf(got), requestsOf(want))
	}
}

// The release of a pod must not change the fields that the cache lacks.
func TestReleaseChangesOnlyTheGateAndTheNodes(t *testing.T) {
	t.Parallel()
	pool := newQueue(func(spec *v1beta1.QueueSpec) {
		spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "training"}}
	})
	affinity := func(pod *corev1.Pod) *corev1.Affinity {
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}
		return pod.Spec.Affinity
	}
	in := func(value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
			},
		}
	}
	preferences := func(pod *corev1.Pod) {
		affinity(pod).PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
		}
		affinity(pod).NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: in("a")},
		}
	}
	terms := func(pod *corev1.Pod) {
		affinity(pod).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{in("a"), in("b")},
		}
	}
	otherGate := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = append(
			pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.org/other"},
		)
	}
	for name, tc := range map[string]struct {
		queue   *v1beta1.Queue
		changes []func(*corev1.Pod)
		isRead  bool
	}{
		"a pod of a queue without a nodeSelector is released from the cache": {queue: newQueue(nil)},
		"a pod of a queue with a nodeSelector is released from the cache":    {queue: pool},
		"a pod with preferences is released from the cache": {
			queue: pool, changes: []func(*corev1.Pod){preferences},
		},
		"a pod with required node affinity is released after a live read": {
			queue: pool, changes: []func(*corev1.Pod){preferences, terms}, isRead: true,
		},
		"a pod with another gate is released after a live read": {
			queue: pool, changes: []func(*corev1.Pod){otherGate}, isRead: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, newPod(append([]func(*corev1.Pod){gated, bulky}, tc.changes...)...))
			var full, got corev1.Pod
			key := client.ObjectKey{Namespace: "team", Name: "pod"}
			if err := c.Get(t.Context(), key, &full); err != nil {
				t.Fatal(err)
			}
			r := &reconciler{client: c}
			if tc.isRead {
				r.reader = c
			}
			if err := r.release(t.Context(), tc.queue, cached(t, &full)); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), key, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ungated(&full, tc.queue, "true"), &got, ignoreVersion, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("a pod that has changed since it was cached is not released", func(t *testing.T) {
		t.Parallel()
		c := newTestClient(t, newPod(gated, bulky, terms))
		var full corev1.Pod
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "pod"}, &full); err != nil {
			t.Fatal(err)
		}
		seen := cached(t, &full)
		full.Labels["new"] = "yes"
		if err := c.Update(t.Context(), &full); err != nil {
			t.Fatal(err)
		}
		if err := (&reconciler{client: c, reader: c}).release(t.Context(), pool, seen); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&full), &full); err != nil || !isGated(&full) {
			t.Errorf("the pod is gated: %v, want true, error: %v", isGated(&full), err)
		}
	})
}

// ignoreVersion ignores the resourceVersion, which each write changes.
var ignoreVersion = cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")

func bulkyMeta(owner *v1beta1.PodGroup) metav1.ObjectMeta {
	m := engineMeta(owner)
	m.Annotations = map[string]string{"note": long}
	return m
}

func TestUpdatesOfKubeSchedulerGroupsKeepFieldsThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	group := newGroup("group", 3).Group
	group.UID = "group-uid"
	there := &schedulingv1beta1.PodGroup{
		ObjectMeta: bulkyMeta(group),
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2},
			},
			ResourceClaims:    []schedulingv1beta1.PodGroupResourceClaim{{Name: "claim"}},
			PriorityClassName: "class", Priority: ptr.To[int32](7),
		},
		Status: schedulingv1beta1.PodGroupStatus{Conditions: []metav1.Condition{
			{
				Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Message: long,
			}, {Type: "Other", Message: long},
		}},
	}
	c := newTestClient(t, there)
	if conditions := cached(t, there).Status.Conditions; len(conditions) != 1 {
		t.Errorf("the cache keeps the conditions %v, want one condition", conditions)
	}
	expectClass(t, ensureEngine(t, throughCache(t, c), native{}, queueView{
		Queue: newQueue(nil), Groups: []groupView{{Group: group, Selected: true}},
	}))
	want, got := there.DeepCopy(), &schedulingv1beta1.PodGroup{}
	want.Spec.SchedulingPolicy.Gang.MinCount = 3
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(there), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignoreVersion); diff != "" {
		t.Errorf("unexpected group (-want +got):\n%s", diff)
	}
}

func TestUpdatesOfVolcanoGroupsKeepFieldsThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	group := newGroup("group", 3).Group
	group.UID, group.Spec.Roles = "group-uid", []v1beta1.PodGroupRole{{Name: "worker", MinMember: 3}}
	resources := cpu("1")
	there := &volcanov1beta1.PodGroup{
		ObjectMeta: bulkyMeta(group),
		Spec: volcanov1beta1.PodGroupSpec{
			MinMember: 2, MinTaskMember: map[string]int32{
				"worker": 2,
			}, MinResources: &resources, Queue: "other", PriorityClassName: "class",
			NetworkTopology: &volcanov1beta1.NetworkTopologySpec{Mode: volcanov1beta1.HardNetworkTopologyMode},
		},
		Status: volcanov1beta1.PodGroupStatus{Conditions: []volcanov1beta1.PodGroupCondition{{Message: long}}},
	}
	c := newTestClient(t, there)
	expectClass(t, ensureEngine(t, throughCache(t, c), volcano{}, queueView{
		Queue: newQueue(nil), Groups: []groupView{{Group: group, Selected: true}},
	}))
	want, got := there.DeepCopy(), &volcanov1beta1.PodGroup{}
	want.Spec.MinMember, want.Spec.MinTaskMember = 3, map[string]int32{"worker": 3}
	want.Spec.Queue = "lab" // a tenant can create Volcano's group first, with another queue
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(there), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignoreVersion); diff != "" {
		t.Errorf("unexpected group (-want +got):\n%s", diff)
	}
}

// expectClass checks that the existing group of the engine keeps the PriorityClass "class".
func expectClass(t *testing.T, ensured *engineChanges) {
	t.Helper()
	got := ensured.Groups[0]
	if ensured.QueueErr != nil || got.Err != nil || got.ClassInForce != "class" {
		t.Fatalf("the group has the class %q and the errors %v and %v, want \"class\" and no error",
			got.ClassInForce, ensured.QueueErr, got.Err)
	}
}

func TestTheCacheKeepsOnlyNamesOfForeignGroups(t *testing.T) {
	t.Parallel()
	group := newGroup("group", 3).Group
	group.UID = "group-uid"
	kept := metav1.ObjectMeta{Namespace: "team", Name: "group"}
	foreign := bulkyMeta(group)
	foreign.OwnerReferences[0].APIVersion = "example.org/v1"
	large := map[string]int32{}
	for i := range 1000 {
		large[fmt.Sprint(i)] = 1
	}
	for name, tc := range map[string]struct{ object, want client.Object }{
		"a group of kube-scheduler that is not ours": {
			object: &schedulingv1beta1.PodGroup{
				ObjectMeta: foreign, Spec: schedulingv1beta1.PodGroupSpec{PriorityClassName: long},
			},
			want: &schedulingv1beta1.PodGroup{ObjectMeta: kept},
		},
		"a group of Volcano that is not ours": {
			object: &volcanov1beta1.PodGroup{ObjectMeta: foreign, Spec: volcanov1beta1.PodGroupSpec{MinMember: 1}},
			want:   &volcanov1beta1.PodGroup{ObjectMeta: kept},
		},
		"a group of Volcano with more roles than a PodGroup can have": {
			object: &volcanov1beta1.PodGroup{
				ObjectMeta: bulkyMeta(group), Spec: volcanov1beta1.PodGroupSpec{MinTaskMember: large},
			},
			want: &volcanov1beta1.PodGroup{ObjectMeta: kept},
		},
		"a group of Volcano with a queue name that is too long": {
			object: &volcanov1beta1.PodGroup{ObjectMeta: bulkyMeta(group), Spec: volcanov1beta1.PodGroupSpec{Queue: long}},
			want:   &volcanov1beta1.PodGroup{ObjectMeta: kept},
		},
		"a group of Volcano with a resource name that is too long": {
			object: &volcanov1beta1.PodGroup{ObjectMeta: bulkyMeta(group), Spec: volcanov1beta1.PodGroupSpec{
				MinResources: &corev1.ResourceList{corev1.ResourceName(long): resource.MustParse("1")},
			}},
			want: &volcanov1beta1.PodGroup{ObjectMeta: kept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, cached(t, tc.object)); diff != "" {
				t.Errorf("unexpected group (-want +got):\n%s", diff)
			}
		})
	}
}
