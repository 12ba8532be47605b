package dependents_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/dependents"
)

func TestWorkloadWakesItsJob(t *testing.T) {
	t.Parallel()
	before := workload(has("QuotaReserved", metav1.ConditionFalse, "Pending", "2 more are needed"))
	for name, tc := range map[string]struct {
		change func(*kueuev1beta2.Workload)
		want   bool
	}{
		"an admission":                   {admittedFor(2), true},
		"an eviction":                    {evicted("Preempted"), true},
		"new words of Kueue":             {has("QuotaReserved", metav1.ConditionFalse, "Pending", "1 more is needed"), true},
		"a deactivation":                 {func(w *kueuev1beta2.Workload) { w.Spec.Active = new(false) }, true},
		"a message about ready pods":     {has("PodsReady", metav1.ConditionTrue, "Started", ""), true},
		"a new resourceVersion does not": {func(w *kueuev1beta2.Workload) { w.ResourceVersion = "8" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before.DeepCopy()
			tc.change(after)
			diff(t, "whether the job is requeued", tc.want, dependents.WorkloadWakes(before, after))
		})
	}
}

func TestCachesTruncateAnnotations(t *testing.T) {
	t.Parallel()
	long := map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: strings.Repeat("a", 250<<10)}
	w := workload()
	w.Annotations = long
	_, err := dependents.TransformWorkload(w)
	diff(t, "error", nil, err)
	diff(t, "length", 1<<10, len(w.Annotations[kueuev1beta2.AnnotationAdmissionGatedBy]))
	g := group(2)
	g.Annotations = long
	_, err = dependents.TransformPodGroup(g)
	diff(t, "error", nil, err)
	diff(t, "annotations of a PodGroup", 0, len(g.Annotations))
}

func TestTheCacheKeepsNoTemplatesOfWorkloads(t *testing.T) {
	t.Parallel()
	w := workload(admittedFor(2))
	want := w.DeepCopy()
	w.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "large"}}
	w.Annotations = map[string]string{"large": "yes"}
	got, err := dependents.TransformWorkload(w)
	diff(t, "error", nil, err)
	diff(t, "cached object", any(want), got)
}
