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
	const word, text = 8, 16 // of a pointer, and of the header of a string
	for name, tc := range map[string]struct {
		value any
		want  int64
	}{
		"nothing takes nothing":                       {nil, 0},
		"a number takes its size":                     {int32(7), 4},
		"a string takes its bytes":                    {"four", text + 4},
		"a nil pointer takes itself":                  {(*node)(nil), word},
		"a pointer takes what it points to":           {&node{name: "a", next: &node{name: "bc"}}, word + 2*(text+word) + 3},
		"a list takes its capacity":                   {make([]int64, 1, 10), 24 + 10*word},
		"a list takes what its elements point to":     {[]string{"a", "bc"}, 24 + 2*text + 3},
		"a map takes its keys and values":             {map[string]string{"key": "value"}, word + 2*text + 16 + 8},
		"a time does not take the zones of the world": {time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := memsize.Of(tc.value); got != tc.want {
				t.Errorf("it takes %d bytes, want %d", got, tc.want)
			}
		})
	}
}

// The estimate is of use only if it is close to what the garbage collector sees.
func TestOfIsCloseToTheHeap(t *testing.T) {
	for name, build := range map[string]func() any{
		"a pod with many small parts": func() any {
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
		"a pod with a large part": func() any {
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
				t.Errorf("the estimate is %d bytes, but the heap grew by %d for each", estimate, measured)
			}
			runtime.KeepAlive(objects)
		})
	}
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
