package tensorboard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/manager"
)

// long is longer than any text that the cache may keep.
var long = strings.Repeat("long ", 100_000)

// keptMeta returns the metadata that the cache keeps of an object of a TensorBoard.
func keptMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "board-tb", UID: "uid", ResourceVersion: "7", Generation: 2,
		CreationTimestamp: metav1.Unix(1, 0),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1beta1.GroupVersion.String(), Kind: "TensorBoard", Name: "board", UID: "board-uid",
			Controller: new(true),
		}},
	}
}

// bulkyMeta returns metadata with additional fields that users can write.
func bulkyMeta() metav1.ObjectMeta {
	m := keptMeta()
	m.Labels = map[string]string{v1beta1.LabelName: "board"}
	m.Annotations = map[string]string{"note": long, annotationSpecHash: "17", annotationConfig: long}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: long}}
	return m
}

func bulkyPod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: bulkyMeta(),
		Spec: corev1.PodSpec{
			NodeName: "node-1", Affinity: affinityTo("node-1"), SchedulerName: long,
			Containers: []corev1.Container{{Name: mainContainer, Command: []string{long}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Message: long, PodIP: "10.0.0.1", HostIP: "10.0.0.2",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: long}},
		},
	}
	pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: long}},
	}
	return pod
}

// bulkyPolicy returns a NetworkPolicy that somebody has changed.
func bulkyPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: bulkyMeta(), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": long}},
	}}
}

func TestTheCacheKeepsTheFieldsThatTheControllerReads(t *testing.T) {
	t.Parallel()
	withHash := keptMeta()
	withHash.Annotations = map[string]string{annotationSpecHash: "17"}
	for name, tc := range map[string]struct{ object, want client.Object }{
		"the state of a pod, and the node of its affinity": {
			object: bulkyPod(),
			want: &corev1.Pod{
				ObjectMeta: withHash,
				Spec:       corev1.PodSpec{NodeName: "node-1", Affinity: affinityTo("node-1")},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, Message: long[:1021] + "...", PodIP: "10.0.0.1",
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				},
			},
		},
		"the owner of a Service": {
			object: &corev1.Service{ObjectMeta: bulkyMeta(), Spec: corev1.ServiceSpec{ExternalName: long}},
			want:   &corev1.Service{ObjectMeta: keptMeta()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkStripped(t, tc.object, tc.want)
		})
	}
}

func TestTheCacheKeepsOnlyMinimalMetadataOfForeignObjects(t *testing.T) {
	t.Parallel()
	foreign := bulkyMeta()
	foreign.OwnerReferences[0].Kind = "Deployment"
	kept := metav1.ObjectMeta{Namespace: "ns", Name: "board-tb", UID: "uid", ResourceVersion: "7"}
	pod := bulkyPod()
	pod.ObjectMeta = foreign
	for name, tc := range map[string]struct{ object, want client.Object }{
		"a pod of a Deployment": {object: pod, want: &corev1.Pod{ObjectMeta: kept}},
		"a Service of a Deployment": {
			object: &corev1.Service{ObjectMeta: foreign, Spec: corev1.ServiceSpec{ExternalName: long}},
			want:   &corev1.Service{ObjectMeta: kept},
		},
		"a NetworkPolicy of a Deployment": {
			object: &networkingv1.NetworkPolicy{ObjectMeta: foreign, Spec: bulkyPolicy().Spec},
			want:   &networkingv1.NetworkPolicy{ObjectMeta: kept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkStripped(t, tc.object, tc.want)
		})
	}
}

func TestTheCacheKeepsTheSpecOfASmallTensorBoard(t *testing.T) {
	t.Parallel()
	board := func(meta metav1.ObjectMeta, image string) *v1beta1.TensorBoard {
		return &v1beta1.TensorBoard{
			ObjectMeta: meta, Spec: v1beta1.TensorBoardSpec{Image: image, Suspend: true},
			Status: v1beta1.TensorBoardStatus{Phase: v1beta1.TensorBoardRunning, URL: "http://board"},
		}
	}
	abridged := &v1beta1.TensorBoard{
		ObjectMeta: keptMeta(), Status: v1beta1.TensorBoardStatus{Phase: v1beta1.TensorBoardRunning},
	}
	for name, tc := range map[string]struct {
		seen, want *v1beta1.TensorBoard
		isLarge    bool
	}{
		"a small TensorBoard is kept":                 {board(bulkyMeta(), "image"), board(keptMeta(), "image"), false},
		"a large TensorBoard is read when it matters": {board(bulkyMeta(), long), abridged, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := boards.Transform(tc.seen)
			if err != nil {
				t.Fatal(err)
			}
			kept := got.(*v1beta1.TensorBoard)
			if large.Is(kept) != tc.isLarge {
				t.Errorf("the TensorBoard is large is %t, want %t", !tc.isLarge, tc.isLarge)
			}
			kept.Annotations = nil // remove the only annotation that the cache adds, which is the size
			if diff := cmp.Diff(tc.want, kept); diff != "" {
				t.Errorf("unexpected TensorBoard (-want +got):\n%s", diff)
			}
		})
	}
}

// checkStripped strips an object twice, because stripping a stripped object must not change it. It checks that the
// result is the expected object and is small.
func checkStripped(t *testing.T, object, want client.Object) {
	t.Helper()
	var got any = object.DeepCopyObject()
	for range 2 {
		var err error
		if got, err = manager.Strip((&Options{}).strip)(got); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("unexpected object (-want +got):\n%s", diff)
	}
	content, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if most := 8 << 10; len(content) > most {
		t.Errorf("the cache keeps %d bytes, want at most %d", len(content), most)
	}
}
