package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/large"
)

// jobOfSize returns a job whose template contains a text of the given length, in bytes.
func jobOfSize(bytes int) *idle {
	job := &idle{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "job", UID: "job-uid", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.NewTime(now), DeletionTimestamp: new(metav1.NewTime(now)),
		Labels:        map[string]string{"team": "vision"},
		Annotations:   map[string]string{"note": "long", large.AnnotationSize: "no size"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	job.spec.Roles = []framework.Role{{Type: "worker", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: mainContainer, Args: []string{strings.Repeat("a", bytes)}}},
	}}}}
	job.status = batchv1beta1.JobStatus{
		Phase: batchv1beta1.JobPhaseRunning, Ready: "1/1", Progress: &batchv1beta1.ProgressStatus{Summary: "42%"},
	}
	return job
}

func TestCacheHoldsSmallJobsCompletely(t *testing.T) {
	t.Parallel()
	got, err := CacheTransform(ofIdle{})(jobOfSize(maxCachedJob / 2))
	diff(t, "error", nil, err)
	want := jobOfSize(maxCachedJob / 2)
	want.Labels, want.Annotations, want.ManagedFields = nil, nil, nil
	diffIdle(t, want, got)
}

func TestCacheHoldsMetadataPhaseAndProgressOfLargeJobs(t *testing.T) {
	t.Parallel()
	got, err := CacheTransform(ofIdle{})(jobOfSize(maxCachedJob))
	diff(t, "error", nil, err)
	want := jobOfSize(0)
	want.Labels, want.ManagedFields, want.spec = nil, nil, framework.JobSpec{}
	want.status = batchv1beta1.JobStatus{
		Phase: batchv1beta1.JobPhaseRunning, Progress: &batchv1beta1.ProgressStatus{Summary: "42%"},
	}
	want.Annotations = map[string]string{large.AnnotationSize: got.(*idle).Annotations[large.AnnotationSize]}
	diffIdle(t, want, got)
}

func TestAChangedAnnotationForKueueRequeuesTheJob(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a small job": 0, "a large job": maxCachedJob} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cached := func(annotations map[string]string) client.Object {
				job := jobOfSize(size)
				job.Annotations = annotations
				got, err := CacheTransform(ofIdle{})(job)
				diff(t, "error", nil, err)
				return got.(client.Object)
			}
			gated := cached(map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: strings.Repeat("a", 250<<10)})
			diff(t, "length of the annotation", 1<<10, len(gated.GetAnnotations()[kueuev1beta2.AnnotationAdmissionGatedBy]))
			update := func(after client.Object) bool {
				return queueChanges.Update(ctrlevent.UpdateEvent{ObjectOld: gated, ObjectNew: after})
			}
			diff(t, "whether a change requeues the job", true, update(cached(nil)))
			diff(t, "whether no change requeues the job", false, update(gated))
		})
	}
}

// The transform function must be idempotent, because a cache transforms each listed object twice.
func TestCacheTransformIsIdempotent(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a small job": maxCachedJob / 2, "a large job": maxCachedJob} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transform := CacheTransform(ofIdle{})
			once, err := transform(jobOfSize(size))
			diff(t, "error", nil, err)
			want := once.(*idle).DeepCopyObject().(*idle)
			want.spec = once.(*idle).spec
			twice, err := transform(once)
			diff(t, "error", nil, err)
			diffIdle(t, want, twice)
		})
	}
}

// If a cache misses the deletion of an object, it passes a tombstone to the transform function, which must not change
// the tombstone.
func TestCacheTransformIgnoresOtherObjects(t *testing.T) {
	t.Parallel()
	type tombstone struct{ key string }
	got, err := CacheTransform(ofIdle{})(tombstone{"ns/job"})
	diff(t, "error", nil, err)
	if got != (tombstone{"ns/job"}) {
		t.Errorf("the tombstone became %v", got)
	}
}

func diffIdle(t *testing.T, want *idle, got any) {
	t.Helper()
	job, ok := got.(*idle)
	if !ok {
		t.Fatalf("got %T", got)
	}
	diff(t, "metadata", want.ObjectMeta, job.ObjectMeta)
	diff(t, "spec", want.spec, job.spec)
	diff(t, "status", want.status, job.status)
}

// server is an API server that has one job.
type server struct {
	client.Reader

	job *idle
}

func (s server) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*idle) = *s.job.DeepCopyObject().(*idle)
	return nil
}

func TestLargeJobsWaitForMemory(t *testing.T) {
	t.Parallel()
	cached, err := CacheTransform(ofIdle{})(jobOfSize(maxCachedJob))
	diff(t, "error", nil, err)
	key := client.ObjectKey{Namespace: "ns", Name: "job"}
	r := &Reconciler[*idle]{
		framework: ofIdle{}, options: Options{Clock: testingclock.NewFakePassiveClock(now)},
		cluster: Cluster{Client: &idleCache{job: cached.(*idle)}},
		jobs:    large.NewReader(server{job: jobOfSize(maxCachedJob)}, costOfLargeJob, largeJobMemory),
	}
	for range 2 * largeJobMemory / costOfLargeJob / maxCachedJob {
		if _, _, err = r.jobs.Get(t.Context(), r.cluster.Client, key, &idle{}); err != nil {
			break
		}
	}
	diff(t, "error of a job while others use the memory", true, errors.Is(err, large.ErrNoMemory))
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	diff(t, "error", nil, err)
	diff(t, "result", reconcile.Result{RequeueAfter: time.Second}, result)
}

// stored is a job with the JSON fields that the API server stores.
type stored struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status batchv1beta1.JobStatus `json:"status"`
}

func (s *stored) DeepCopyObject() runtime.Object     { return new(*s) }
func (s *stored) JobStatus() *batchv1beta1.JobStatus { return &s.Status }

func TestSizeWithoutStatus(t *testing.T) {
	t.Parallel()
	job := &stored{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"note": strings.Repeat("a", 1000)}}}
	want := sizeWithoutStatus(job)
	if want < 1000 || want > 1200 {
		t.Errorf("a job with an annotation of 1000 bytes takes %d bytes, want 1000 to 1200", want)
	}
	status := batchv1beta1.JobStatus{Phase: batchv1beta1.JobPhaseRunning, Reason: strings.Repeat("b", 1000)}
	job.Status = status
	diff(t, "size of a job with a status", want, sizeWithoutStatus(job))
	diff(t, "status", status, job.Status)
}
