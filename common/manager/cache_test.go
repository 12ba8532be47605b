package manager

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/network"
)

var testKind = schema.GroupKind{Group: "batch.example.org", Kind: "TestJob"}

// long is a text that is longer than any text that the cache keeps.
var long = strings.Repeat("long ", 10_000)

// meta returns the metadata of an object that the controller owns, as the cache keeps it, but without labels and
// annotations.
func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "job-worker-0", Namespace: "ns", UID: "uid", ResourceVersion: "7", Generation: 2,
		CreationTimestamp:          metav1.Unix(1, 0),
		DeletionTimestamp:          new(metav1.Unix(2, 0)),
		DeletionGracePeriodSeconds: ptr.To[int64](30),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "batch.example.org/v1", Kind: "TestJob", Name: "job", UID: "job-uid",
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}
}

// foreignMeta returns the metadata that the cache keeps of an object that the controller does not own.
func foreignMeta() metav1.ObjectMeta {
	full := meta()
	return metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, UID: full.UID,
		ResourceVersion: full.ResourceVersion, DeletionTimestamp: full.DeletionTimestamp,
	}
}

// bulky adds large values to all metadata fields that a user can write.
func bulky(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Labels = map[string]string{"batch.tensorstack.dev/attempt": "1.2", "batch.tensorstack.dev/job-kind": "TestJob"}
	m.Annotations = map[string]string{"note": long}
	m.Finalizers = []string{"example.org/" + long}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: long}}
	for i := range 100 {
		m.Labels[fmt.Sprintf("example.org/%d", i)] = "value"
		m.OwnerReferences = append(
			m.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: long, UID: types.UID(long)},
		)
	}
	return m
}

func bulkyPod(m metav1.ObjectMeta) *corev1.Pod {
	terminated := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: long, ContainerID: long,
			StartedAt: metav1.Unix(1, 0), FinishedAt: metav1.Unix(2, 0),
		}}
	}
	return &corev1.Pod{
		ObjectMeta: bulky(m),
		Spec: corev1.PodSpec{
			NodeName:       "node-1",
			Volumes:        []corev1.Volume{{Name: "data"}},
			InitContainers: []corev1.Container{{Name: "fetch", Command: []string{long}}},
			Containers: []corev1.Container{
				{Name: "sidecar", Image: "sidecar"},
				{Name: "main", Image: "training", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "Evicted", Message: long,
			QOSClass: corev1.PodQOSBurstable, HostIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}},
			StartTime: new(metav1.Unix(1, 0)),
			Conditions: []corev1.PodCondition{
				{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: long,
					LastTransitionTime: metav1.Unix(3, 0),
				},
				{
					Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Message: long,
					LastTransitionTime: metav1.Unix(3, 0),
				},
				{
					Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: long,
					LastProbeTime: metav1.Unix(3, 0), LastTransitionTime: metav1.Unix(4, 0),
				},
			},
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "fetch", Image: long, ImageID: long, ContainerID: long, State: terminated(1)},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name:  "sidecar",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1, 0)}},
					Ready: true, RestartCount: 3,
				},
				{
					Name: "main",
					State: corev1.ContainerState{
						Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: long},
					},
					LastTerminationState: terminated(2), RestartCount: 4,
				},
				{Name: "other", State: terminated(0)},
				{Name: "last", State: terminated(0)},
			},
		},
	}
}

// sizeOf returns the length of an object as JSON.
func sizeOf(t *testing.T, object any) int {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(content)
}

// cached returns the object as the cache of a controller of test jobs contains it. It strips the object twice,
// because a cache can strip its own results again.
func cached[T client.Object](t *testing.T, object T) T {
	t.Helper()
	var got any = object.DeepCopyObject()
	for range 2 {
		var err error
		if got, err = jobCache(testKind, network.Policies{}, nil).DefaultTransform(got); err != nil {
			t.Fatal(err)
		}
	}
	return got.(T)
}

func TestTheCacheKeepsTheFieldsOfAPodThatTheJobControllerReads(t *testing.T) {
	t.Parallel()
	terminated := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: message, FinishedAt: metav1.Unix(2, 0),
		}}
	}
	note, output := long[:1021]+"...", long[:4093]+"..."
	want := &corev1.Pod{
		ObjectMeta: meta(),
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "Evicted", Message: note,
			Conditions: []corev1.PodCondition{
				{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: note,
					LastTransitionTime: metav1.Unix(3, 0),
				},
				{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(3, 0)},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(4, 0)},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "fetch", State: terminated(1, output)}},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name:  "sidecar",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					Ready: true, RestartCount: 3,
				},
				{
					Name: "main",
					State: corev1.ContainerState{
						Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: note},
					},
					LastTerminationState: terminated(2, output), RestartCount: 4,
				},
				{Name: "other", State: terminated(0, long[:12<<10-1024-2*4096-3]+"...")}, // the remaining bytes of maxMessages
				{Name: "last", State: terminated(0, "")},
			},
		},
	}
	want.Labels = map[string]string{"batch.tensorstack.dev/attempt": "1.2"}
	got := cached(t, bulkyPod(meta()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
	if most, size := 20<<10, sizeOf(t, got); size > most {
		t.Errorf("the cache keeps %d bytes of a pod, want at most %d", size, most)
	}
}

// A pod can have thousands of containers, so the cache must not keep the statuses of all of them.
func TestTheCacheKeepsTheContainersOfAPodThatMatter(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	containers := func(prefix string, special map[string]corev1.ContainerState) []corev1.ContainerStatus {
		statuses := make([]corev1.ContainerStatus, 1000)
		for i := range statuses {
			name := fmt.Sprintf("%s%d", prefix, i)
			state, ok := special[name]
			if !ok {
				state = ended(0)
			}
			statuses[i] = corev1.ContainerStatus{Name: name, State: state}
		}
		return statuses
	}
	names := func(statuses []corev1.ContainerStatus) []string {
		var names []string
		for _, s := range statuses {
			names = append(names, s.Name)
		}
		return names
	}
	pod := &corev1.Pod{ObjectMeta: meta()}
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": "c900"}
	pod.Status.ContainerStatuses = containers("c", map[string]corev1.ContainerState{"c700": ended(1), "c800": running})
	pod.Status.InitContainerStatuses = append(
		containers("i", map[string]corev1.ContainerState{"i300": ended(1)}),
		corev1.ContainerStatus{Name: "progress", State: ended(0)})
	first := func(n int, prefix string) []string {
		var first []string
		for i := range n {
			first = append(first, fmt.Sprintf("%s%d", prefix, i))
		}
		return first
	}
	got := cached(t, pod)
	// c900 is the main container, c800 still runs, and c700 has failed.
	want := append(first(maxContainers-2, "c"), "c700", "c800", "c900")
	if diff := cmp.Diff(want, names(got.Status.ContainerStatuses)); diff != "" {
		t.Errorf("unexpected containers (-want +got):\n%s", diff)
	}
	want = append(first(maxInitContainers-1, "i"), "i300", "progress")
	if diff := cmp.Diff(want, names(got.Status.InitContainerStatuses)); diff != "" {
		t.Errorf("unexpected init containers (-want +got):\n%s", diff)
	}
}

func TestTheCacheKeepsAMinimumOfAPodThatNoJobControls(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*metav1.OwnerReference){
		"a pod of a ReplicaSet is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.APIVersion, o.Kind = "apps/v1", "ReplicaSet"
		},
		"a pod of the same kind in another group is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.APIVersion = "example.org/v1"
		},
		"a pod that its job does not control is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.Controller = nil
		},
		"a pod whose owner's name is too long is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.Name = long
		},
		"a pod whose owner's UID is too long is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.UID = types.UID(long)
		},
		"a pod whose owner's version is too long is stripped to a minimum": func(o *metav1.OwnerReference) {
			o.APIVersion += long
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meta()
			change(&m.OwnerReferences[0])
			if diff := cmp.Diff(&corev1.Pod{ObjectMeta: foreignMeta()}, cached(t, bulkyPod(m))); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCacheKeepsTheFinalizerAndTheJobNameOfAHeldPod(t *testing.T) {
	t.Parallel()
	held := func(m metav1.ObjectMeta) *corev1.Pod {
		p := bulkyPod(m)
		p.Finalizers = append(p.Finalizers, "batch.tensorstack.dev/leader")
		p.Labels["batch.tensorstack.dev/job-name"] = "job"
		return p
	}
	foreign := meta()
	foreign.OwnerReferences = nil
	for name, tc := range map[string]struct {
		pod        *corev1.Pod
		wantLabels map[string]string
	}{
		"a held pod of a job keeps its finalizer and its labels": {
			held(meta()),
			map[string]string{"batch.tensorstack.dev/attempt": "1.2", "batch.tensorstack.dev/job-name": "job"},
		},
		"a held pod without an owner keeps its finalizer and its job name": {
			held(foreign), map[string]string{"batch.tensorstack.dev/job-name": "job"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cached(t, tc.pod)
			if diff := cmp.Diff([]string{"batch.tensorstack.dev/leader"}, got.Finalizers); diff != "" {
				t.Errorf("unexpected finalizers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantLabels, got.Labels); diff != "" {
				t.Errorf("unexpected labels (-want +got):\n%s", diff)
			}
		})
	}
}

// The controller reads the progress of a pod only if a job of the controller owns the pod, and the pod reports its
// progress. So the cache keeps only the addresses of such pods.
func TestTheCacheKeepsTheAnnotationsOfAPodThatTheJobControllerReads(t *testing.T) {
	t.Parallel()
	const port, token = "batch.tensorstack.dev/progress-port", "batch.tensorstack.dev/progress-token"
	const supervisor = "batch.tensorstack.dev/supervisor-port"
	counts := map[string]string{supervisor: "29498"}
	const avoids = "batch.tensorstack.dev/avoids-node"
	reports := map[string]string{port: "29499", token: "secret"}
	foreign := meta()
	foreign.OwnerReferences = nil
	for name, tc := range map[string]struct {
		meta        metav1.ObjectMeta
		annotations map[string]string
		// want are the annotations in the cache, and wantIP is the address of the pod in the cache.
		want   map[string]string
		wantIP string
	}{
		"a pod that reports keeps its port, its token and its address": {
			meta: meta(), annotations: reports, want: reports, wantIP: "10.0.0.2",
		},
		"a pod that counts restarts in place keeps its port and its address": {
			meta: meta(), annotations: counts, want: counts, wantIP: "10.0.0.2",
		},
		"a pod that does not report keeps no address": {meta: meta(), annotations: map[string]string{"note": "short"}},
		"a pod without an owner keeps nothing":        {meta: foreign, annotations: reports},
		"a pod that avoids a node keeps the name of the node, but no address": {
			meta: meta(), annotations: map[string]string{avoids: "node-1"}, want: map[string]string{avoids: "node-1"},
		},
		"a token that somebody has made long is truncated": {
			meta: meta(), annotations: map[string]string{token: long}, want: map[string]string{token: long[:253] + "..."},
			wantIP: "10.0.0.2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bulkyPod(tc.meta)
			p.Annotations, p.Status.PodIP = tc.annotations, "10.0.0.2"
			got := cached(t, p)
			if diff := cmp.Diff(tc.want, got.Annotations); diff != "" {
				t.Errorf("unexpected annotations (-want +got):\n%s", diff)
			}
			if got.Status.PodIP != tc.wantIP {
				t.Errorf("the address is %q, want %q", got.Status.PodIP, tc.wantIP)
			}
		})
	}
}

// If the cache kept the health of all devices, each pod with a device would take more memory.
func TestTheCacheKeepsOnlyUnhealthyDevices(t *testing.T) {
	t.Parallel()
	health := func(id string, health corev1.ResourceHealthStatus) corev1.ResourceHealth {
		return corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: health}
	}
	resource := func(name string, devices ...corev1.ResourceHealth) corev1.ResourceStatus {
		return corev1.ResourceStatus{Name: corev1.ResourceName(name), Resources: devices}
	}
	var many []corev1.ResourceHealth
	for i := range 20 {
		many = append(many, health(strconv.Itoa(i), corev1.ResourceHealthStatusUnhealthy))
	}
	withMessage := health("a", corev1.ResourceHealthStatusUnhealthy)
	withMessage.Message = &long
	for name, tc := range map[string]struct {
		resources, want []corev1.ResourceStatus
	}{
		"healthy and unknown devices are not kept": {
			resources: []corev1.ResourceStatus{resource("gpu",
				health("a", corev1.ResourceHealthStatusHealthy), health("b", corev1.ResourceHealthStatusUnknown))},
		},
		"an unhealthy device is kept without its message": {
			resources: []corev1.ResourceStatus{
				resource("gpu", health("b", corev1.ResourceHealthStatusHealthy), withMessage), resource("nic"),
			},
			want: []corev1.ResourceStatus{resource("gpu", health("a", corev1.ResourceHealthStatusUnhealthy))},
		},
		"16 devices are kept": {
			resources: []corev1.ResourceStatus{resource("gpu", many[:10]...), resource("nic", many[10:]...)},
			want:      []corev1.ResourceStatus{resource("gpu", many[:10]...), resource("nic", many[10:16]...)},
		},
		"long names are truncated": {
			resources: []corev1.ResourceStatus{resource(long, health(long, corev1.ResourceHealthStatusUnhealthy))},
			want: []corev1.ResourceStatus{
				resource(long[:253]+"...", health(long[:253]+"...", corev1.ResourceHealthStatusUnhealthy)),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bulkyPod(meta())
			p.Status.ContainerStatuses[0].AllocatedResourcesStatus = tc.resources
			got := cached(t, p).Status.ContainerStatuses[0].AllocatedResourcesStatus
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCacheKeepsTheLastReportOfASidecar(t *testing.T) {
	t.Parallel()
	last := `{"reports":1,"metrics":{"` + strings.Repeat("a", 2000) + `":"1"}}`
	p := bulkyPod(meta())
	for i := range 3 { // the sidecar is second: only the init container that waits for domain names precedes it
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: fmt.Sprintf("other-%d", i), State: p.Status.InitContainerStatuses[0].State,
		})
	}
	p.Status.InitContainerStatuses[1] = corev1.ContainerStatus{Name: "progress", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: last, FinishedAt: metav1.Unix(2, 0)},
	}}
	want := corev1.ContainerStatus{Name: "progress", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: last, FinishedAt: metav1.Unix(2, 0)},
	}}
	if diff := cmp.Diff(want, cached(t, p).Status.InitContainerStatuses[1]); diff != "" {
		t.Errorf("unexpected status of the sidecar (-want +got):\n%s", diff)
	}
}

func TestTheCacheKeepsTheOwnerOfAService(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{
		ObjectMeta: bulky(meta()),
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"a": "b"}},
		Status:     corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "Ready"}}},
	}
	if diff := cmp.Diff(&corev1.Service{ObjectMeta: meta()}, cached(t, service)); diff != "" {
		t.Errorf("unexpected Service of a job (-want +got):\n%s", diff)
	}
	service.OwnerReferences = nil
	if diff := cmp.Diff(&corev1.Service{ObjectMeta: foreignMeta()}, cached(t, service)); diff != "" {
		t.Errorf("unexpected Service without an owner (-want +got):\n%s", diff)
	}
}

func TestTheCacheKeepsTheOwnerAndOnlyTheWantedSpecOfANetworkPolicy(t *testing.T) {
	t.Parallel()
	wanted := controller.NetworkPolicySpec(testKind.Kind, meta().Name, network.Policies{}, nil)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: bulky(meta()), Spec: wanted}
	want := &networkingv1.NetworkPolicy{ObjectMeta: meta(), Spec: wanted}
	if diff := cmp.Diff(want, cached(t, policy)); diff != "" {
		t.Errorf("unexpected NetworkPolicy of a job (-want +got):\n%s", diff)
	}
	policy.Spec.Ingress = nil
	if diff := cmp.Diff(&networkingv1.NetworkPolicy{ObjectMeta: meta()}, cached(t, policy)); diff != "" {
		t.Errorf("unexpected NetworkPolicy with another spec (-want +got):\n%s", diff)
	}
	policy.OwnerReferences = nil
	if diff := cmp.Diff(&networkingv1.NetworkPolicy{ObjectMeta: foreignMeta()}, cached(t, policy)); diff != "" {
		t.Errorf("unexpected NetworkPolicy without an owner (-want +got):\n%s", diff)
	}
}

// The NetworkPolicy of a job whose pods the controller reads has a rule for the controller. It depends on the job which
// ports the rule has. The cache keeps each possible spec, because it does not know the job.
func TestTheCacheKeepsTheSpecOfANetworkPolicyThatAllowsTheReader(t *testing.T) {
	t.Parallel()
	reader := network.ControllerPods("tensorstack", "test-controller")
	other := network.ControllerPods("tensorstack", "other-controller")
	spec := func(reader *networkingv1.NetworkPolicyPeer, ports ...int32) networkingv1.NetworkPolicySpec {
		return controller.NetworkPolicySpec(testKind.Kind, meta().Name, network.Policies{}, reader, ports...)
	}
	for name, tc := range map[string]struct {
		spec     networkingv1.NetworkPolicySpec
		wantSpec bool
	}{
		"a spec with the port for progress is kept":      {spec: spec(reader, 29499), wantSpec: true},
		"a spec with the port of the supervisor is kept": {spec: spec(reader, 29498), wantSpec: true},
		"a spec with both ports is kept":                 {spec: spec(reader, 29499, 29498), wantSpec: true},
		"a spec without a rule for the reader is kept":   {spec: spec(nil), wantSpec: true},
		"a spec with a rule for another reader is lost":  {spec: spec(other, 29499)},
		"a spec with a rule for another port is lost":    {spec: spec(reader, 22)},
		"a spec with a rule for any port of the replicas is lost": {
			spec: func() networkingv1.NetworkPolicySpec {
				s := spec(reader, 29499)
				s.Ingress[1].Ports = nil
				return s
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got any = &networkingv1.NetworkPolicy{ObjectMeta: meta(), Spec: tc.spec}
			for range 2 {
				var err error
				if got, err = jobCache(testKind, network.Policies{}, reader).DefaultTransform(got); err != nil {
					t.Fatal(err)
				}
			}
			want := &networkingv1.NetworkPolicy{ObjectMeta: meta()}
			if tc.wantSpec {
				want.Spec = tc.spec
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected NetworkPolicy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStripMetaKeepsAndTruncatesNamedLabelsAndAnnotations(t *testing.T) {
	t.Parallel()
	m := bulky(meta())
	m.Annotations["hash"] = "17"
	StripMeta(&m, []string{"batch.tensorstack.dev/attempt", "missing"}, []string{"note", "hash"})
	want := meta()
	want.Labels = map[string]string{"batch.tensorstack.dev/attempt": "1.2"}
	want.Annotations = map[string]string{"note": long[:253] + "...", "hash": "17"}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("unexpected metadata (-want +got):\n%s", diff)
	}
}

// If a cache misses the deletion of an object, it passes a tombstone to the transform.
func TestStripDoesNotChangeTombstones(t *testing.T) {
	t.Parallel()
	type tombstone struct{ key string }
	strip := Strip(func(object client.Object) { t.Errorf("it stripped %v", object) })
	if got, err := strip(tombstone{"ns/job"}); err != nil || got != (tombstone{"ns/job"}) {
		t.Errorf("the tombstone became %v with the error %v", got, err)
	}
}

func TestTheCacheSelectsObjectsOfTheKind(t *testing.T) {
	t.Parallel()
	options := withNamespace(jobCache(testKind, network.Policies{}, nil), "")
	got := map[string]string{}
	for object, by := range options.ByObject {
		switch object.(type) {
		case *corev1.Pod:
			got["pods"] = by.Label.String()
		case *corev1.Service:
			got["services"] = by.Label.String()
		case *networkingv1.NetworkPolicy:
			got["networkpolicies"] = by.Label.String()
		}
	}
	want := map[string]string{
		"pods":            "batch.tensorstack.dev/job-kind=TestJob",
		"services":        "batch.tensorstack.dev/job-kind=TestJob",
		"networkpolicies": "batch.tensorstack.dev/job-kind=TestJob",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected selectors (-want +got):\n%s", diff)
	}
	if options.DefaultNamespaces != nil {
		t.Errorf("only the namespaces %v are watched, want all", options.DefaultNamespaces)
	}

	limited := withNamespace(jobCache(testKind, network.Policies{}, nil), "team")
	if diff := cmp.Diff(map[string]cache.Config{"team": {}}, limited.DefaultNamespaces); diff != "" {
		t.Errorf("unexpected namespaces (-want +got):\n%s", diff)
	}
}
