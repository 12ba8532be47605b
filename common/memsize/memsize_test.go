package memsize_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/memsize"
)

func TestOf(t *testing.T) {
	t.Parallel()
	type node struct {
		name string
		next *node
	}
	const word, text = 8, 16 // the sizes of a pointer and of a string header
	for name, tc := range map[string]struct {
		value any
		want  int64
	}{
		"nil has no size":                              {nil, 0},
		"a number has the size of its type":            {int32(7), 4},
		"a string includes its bytes":                  {"four", text + 4},
		"a nil pointer is one word":                    {(*node)(nil), word},
		"a pointer includes its target":                {&node{name: "a", next: &node{name: "bc"}}, word + 2*(text+word) + 3},
		"a slice includes its capacity":                {make([]int64, 1, 10), 24 + 10*word},
		"a slice includes the targets of its elements": {[]string{"a", "bc"}, 24 + 2*text + 3},
		"a map includes its keys and values":           {map[string]string{"key": "value"}, word + 2*text + 16 + 8},
		"a time does not include its location":         {time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := memsize.Of(tc.value); got != tc.want {
				t.Errorf("the size is %d bytes, want %d", got, tc.want)
			}
		})
	}
}

// The estimate must be close to the memory that the garbage collector reports.
func TestOfIsCloseToTheHeap(t *testing.T) {
	for name, build := range map[string]func() any{
		"a pod with many small fields": func() any {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
			for i := range 1000 {
				pod.Labels[fmt.Sprintf("label-%d", i)] = fmt.Sprint(i)
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("key-%d", i)})
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
					Name: fmt.Sprintf("container-%d", i),
					Env:  []corev1.EnvVar{{Name: fmt.Sprintf("NAME_%d", i), Value: fmt.Sprintf("value-%d", i)}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("1500m"),
					}},
				})
			}
			return pod
		},
		"a pod with one large field": func() any {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("a", 1<<20)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const copies = 20
			objects := make([]any, copies)
			before := heap()
			for i := range objects {
				objects[i] = build()
			}
			measured := (heap() - before) / copies
			estimate := memsize.Of(objects[0])
			t.Logf("estimate %d, measured %d", estimate, measured)
			if estimate < measured/2 || estimate > 2*measured {
				t.Errorf("the estimate is %d bytes, but the heap grew by %d bytes per object", estimate, measured)
			}
			runtime.KeepAlive(objects)
		})
	}
}

// heap returns the size of the heap in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
