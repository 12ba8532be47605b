package model

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// TestPodWithAFinalizer checks that a pod that is deleted by force stays until its finalizer is removed, and keeps the
// time at which its deletion was requested.
func TestPodWithAFinalizer(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakePassiveClock(Birth)
	c := NewCluster(scheme, clock)
	live := func() *corev1.Pod { return ListOf[*corev1.Pod](c.Live())[0] }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "job-worker-0", Finalizers: []string{batchv1beta1.FinalizerLeader},
	}}
	steps := []error{c.Create(pod), Runs(c, pod), IsDeleted(c, live())}
	requested := policy.DeletedAt(live())
	clock.SetTime(Birth.Add(10 * time.Second))
	steps = append(steps, Vanishes(c, live()))
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !IsLetGo(live()) {
		t.Fatalf("expected that only the finalizer keeps the pod: %+v", live().ObjectMeta)
	}
	if diff := cmp.Diff(requested, policy.DeletedAt(live())); diff != "" {
		t.Errorf("the time of the deletion request changed (-want +got):\n%s", diff)
	}
	remove := func(version string) error {
		patch := `{"metadata": {"resourceVersion": "` + version + `",
			"$deleteFromPrimitiveList/finalizers": ["batch.tensorstack.dev/leader"]}}`
		return c.Client().Patch(t.Context(), live().DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
	if err := remove("1"); err == nil {
		t.Error("a patch with an outdated resourceVersion is accepted, want a conflict")
	}
	if err := remove(live().ResourceVersion); err != nil {
		t.Fatal(err)
	}
	if left := ListOf[*corev1.Pod](c.Live()); len(left) > 0 {
		t.Errorf("the pod still exists after its last finalizer was removed: %+v", left[0].ObjectMeta)
	}
}
