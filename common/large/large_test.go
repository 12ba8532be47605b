package large

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var key = client.ObjectKey{Namespace: "ns", Name: "object"}

// most is the maximum size, in bytes, of an object that the cache of the tests holds completely.
const most = 10_000

// object returns a ConfigMap with a text of the given number of bytes. If size is not empty, the ConfigMap also has
// AnnotationSize with this value.
func object(bytes int, size string) *corev1.ConfigMap {
	annotations := map[string]string{"note": "ours"}
	if size != "" {
		annotations[AnnotationSize] = size
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: annotations},
		Data:       map[string]string{"text": strings.Repeat("a", bytes)},
		Immutable:  new(true),
	}
}

var configMaps = Kind[*corev1.ConfigMap]{
	Most: most,
	New:  func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
	Strip: func(c *corev1.ConfigMap) {
		c.Annotations = map[string]string{"note": c.Annotations["note"]}
	},
	Keep: func(into, from *corev1.ConfigMap) { into.Immutable = from.Immutable },
}

// held returns an object as the cache holds it.
func held(t *testing.T, object *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	held, err := configMaps.Transform(object)
	if err != nil {
		t.Fatal(err)
	}
	return held.(*corev1.ConfigMap)
}

func TestTransform(t *testing.T) {
	t.Parallel()
	large := func(size string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: object(0, size).ObjectMeta, Immutable: new(true)}
	}
	for name, tc := range map[string]struct{ object, want *corev1.ConfigMap }{
		"a small object is kept whole":                                 {object(100, ""), object(100, "")},
		"of a large object the metadata and what events need are kept": {object(most, ""), large("10413")},
		"an object that was stripped stays":                            {large("10413"), large("10413")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := held(t, tc.object)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, held(t, got)); diff != "" {
				t.Errorf("unexpected object after the second time (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	holding := func(objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	}
	whole := object(most, "")
	whole.ResourceVersion = "999"
	cache := holding(held(t, object(most, "")))
	reader := NewReader(holding(whole), 2, 80_000) // a namespace gets half of the memory
	read := func() (*corev1.ConfigMap, bool, func(), error) {
		got := &corev1.ConfigMap{}
		isLarge, release, err := reader.Get(t.Context(), cache, key, got)
		return got, isLarge, release, err
	}
	got, isLarge, release, err := read()
	if diff := cmp.Diff(whole, got); diff != "" || !isLarge || err != nil {
		t.Errorf("isLarge is %t, the error is %v, and the object differs (-want +got):\n%s", isLarge, err, diff)
	}
	if _, _, _, err := read(); !errors.Is(err, ErrNoMemory) {
		t.Errorf("the error of a second reconcile is %v, want %v", err, ErrNoMemory)
	}
	release()
	api := reader.api
	reader.api = holding()
	if _, _, _, err := read(); !apierrors.IsNotFound(err) {
		t.Errorf("the error of an object that is gone is %v, want NotFound", err)
	}
	reader.api = api
	_, _, release, err = read() // succeeds, because the earlier reads hold no memory any more
	if err != nil {
		t.Error(err)
	}
	release()
	reader.api = holding(object(2*most-1000, "")) // the object has grown since the cache saw it
	_, _, release, err = read()
	if err != nil || reader.memory.TryAcquire(key.Namespace, 10_000) {
		t.Errorf("the error of an object that has grown is %v, or its memory is not reserved", err)
	}
	release()
	reader.api = holding(object(4*most, ""))
	if _, _, _, err := read(); !errors.Is(err, ErrNoMemory) {
		t.Errorf("the error of an object that has grown too large is %v, want %v", err, ErrNoMemory)
	}
	cache, reader.api = holding(object(100, "")), nil
	if got, isLarge, _, err := read(); isLarge || err != nil || len(got.Data["text"]) != 100 {
		t.Errorf("a small object was read as %v, isLarge is %t, the error is %v", got, isLarge, err)
	}
}
