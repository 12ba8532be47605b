package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// meta is all that anyone may want to know of an object but its spec.
func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "job-worker-0", Namespace: "ns", UID: "uid", ResourceVersion: "7",
		Labels:                     map[string]string{"batch.tensorstack.dev/attempt": "1"},
		OwnerReferences:            []metav1.OwnerReference{{Kind: "TestJob", UID: "job-uid", Controller: new(true)}},
		DeletionGracePeriodSeconds: ptr.To[int64](30),
	}
}

func bulky(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Annotations = map[string]string{"note": "long"}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	return m
}

func TestStripPodKeepsWhatTheEngineReads(t *testing.T) {
	t.Parallel()
	status := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}}
	got, err := stripPod(&corev1.Pod{
		ObjectMeta: bulky(meta()),
		Spec: corev1.PodSpec{
			NodeName:       "node-1",
			Volumes:        []corev1.Volume{{Name: "data"}},
			InitContainers: []corev1.Container{{Name: "fetch"}},
			Containers: []corev1.Container{
				{Name: "sidecar", Image: "sidecar"},
				{Name: "main", Image: "training", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}}},
			},
		},
		Status: status,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: meta(),
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "sidecar"}, {Name: "main"}}},
		Status:     status,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
}

func TestStripServiceKeepsWhoseItIs(t *testing.T) {
	t.Parallel()
	got, err := stripService(&corev1.Service{
		ObjectMeta: bulky(meta()),
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"a": "b"}},
		Status:     corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "Ready"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&corev1.Service{ObjectMeta: meta()}, got); diff != "" {
		t.Errorf("unexpected Service (-want +got):\n%s", diff)
	}
}

// A cache hands a transform what is no object of its kind when it learns late that one was deleted.
func TestStripLeavesAnythingElse(t *testing.T) {
	t.Parallel()
	type tombstone struct{ key string }
	for name, strip := range map[string]func(any) (any, error){"stripPod": stripPod, "stripService": stripService} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := strip(tombstone{"ns/job"})
			if err != nil || got != (tombstone{"ns/job"}) {
				t.Errorf("it became %v, %v", got, err)
			}
		})
	}
}

func TestCacheHoldsOnlyOurs(t *testing.T) {
	t.Parallel()
	options := cacheOptions(jobCache("TestJob"), "")
	got := map[string]string{}
	for object, by := range options.ByObject {
		switch object.(type) {
		case *corev1.Pod:
			got["pods"] = by.Label.String()
		case *corev1.Service:
			got["services"] = by.Label.String()
		}
	}
	want := map[string]string{
		"pods":     "batch.tensorstack.dev/job-kind=TestJob",
		"services": "batch.tensorstack.dev/job-kind=TestJob",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected selectors (-want +got):\n%s", diff)
	}
	if options.DefaultNamespaces != nil {
		t.Errorf("only these namespaces are watched: %v", options.DefaultNamespaces)
	}

	limited := cacheOptions(jobCache("TestJob"), "team")
	if diff := cmp.Diff(map[string]cache.Config{"team": {}}, limited.DefaultNamespaces); diff != "" {
		t.Errorf("unexpected namespaces (-want +got):\n%s", diff)
	}
}
