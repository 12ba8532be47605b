package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// idleJob returns a job of so many replicas, all of which run, and what the cluster holds of it. There is nothing to do about it.
func idleJob(replicas int32) (*jobBuilder, observation) {
	j := job(role("master", 1), role("worker", replicas-1))
	owner := metav1.OwnerReference{APIVersion: "test/v1", Kind: "TestJob", Name: j.Name, UID: j.UID, Controller: new(true)}
	var pods []*corev1.Pod
	for i, member := range members(j) {
		p := pod(member.Name, onNode(fmt.Sprintf("node-%d", i)), running)
		p.OwnerReferences = []metav1.OwnerReference{owner}
		pods = append(pods, p)
	}
	return j.saw(time.Minute, pods...), seeing(pods...)
}

func BenchmarkPlan(b *testing.B) {
	for _, replicas := range []int32{10, 100, 1000} {
		idle, pods := idleJob(replicas)
		for _, bc := range []struct {
			name string
			job  *jobBuilder
			seen observation
		}{
			{"nothing to do", idle, pods},
			{"all to create", job(role("master", 1), role("worker", replicas-1)), seeing()},
		} {
			b.Run(fmt.Sprintf("%s/replicas=%d", bc.name, replicas), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					plan(bc.job.snapshot, bc.seen, now)
				}
			})
		}
	}
}

// What a reconcile costs besides plan: to read the cache and to find that the status is as it should be.
func BenchmarkReconcile(b *testing.B) {
	for _, replicas := range []int32{4, 100, 1000} {
		b.Run(fmt.Sprintf("nothing to do/replicas=%d", replicas), func(b *testing.B) {
			r, request := idleReconciler(replicas)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Reconcile(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A running job that nothing befalls costs each of its replicas the same, however many there are.
func TestAllocationsGrowWithTheReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		run        func(replicas int32) func()
		wantLinear bool
	}{
		"of a plan": {wantLinear: true, run: func(replicas int32) func() {
			j, seen := idleJob(replicas)
			return func() { plan(j.snapshot, seen, now) }
		}},
		"of a reconcile": {wantLinear: true, run: func(replicas int32) func() {
			r, request := idleReconciler(replicas)
			return func() {
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Error(err)
				}
			}
		}},
		"of a plan, and not if each replica got a list of all": {run: func(replicas int32) func() {
			j, seen := idleJob(replicas)
			return func() {
				plan(j.snapshot, seen, now)
				for range members(j) {
					members(j)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const few, many, margin = 100, 1000, 1.5 // the names of higher replicas are longer, and the sizes of maps are powers of 2
			objectsOfFew, bytesOfFew := allocated(tc.run(few))
			objects, bytes := allocated(tc.run(many))
			const limit = margin * many / few
			if linear := objects <= limit*objectsOfFew && bytes <= limit*bytesOfFew; linear != tc.wantLinear {
				t.Errorf("%d replicas cost %.0f allocations of %.0f bytes, %d cost %.0f of %.0f: linear is %t, want %t",
					few, objectsOfFew, bytesOfFew, many, objects, bytes, linear, tc.wantLinear)
			}
		})
	}
}

// allocated returns how many objects, and how many bytes, a function allocates.
func allocated(run func()) (objects, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	objects = testing.AllocsPerRun(1, run) // which runs it once more, to warm up
	runtime.ReadMemStats(&after)
	return objects, float64(after.TotalAlloc-before.TotalAlloc) / 2
}

// The benchmarks would measure something else if there were anything to do.
func TestIdleJobsAreLeftAlone(t *testing.T) {
	t.Parallel()
	j, seen := idleJob(4)
	diff(t, "decision", decision{Status: j.Status}, plan(j.snapshot, seen, now))
	diff(t, "phase", batchv1beta1.JobPhaseRunning, j.Status.Phase)
	r, request := idleReconciler(4) // its client fails on every write
	result, err := r.Reconcile(t.Context(), request)
	diff(t, "result", reconcile.Result{}, result)
	diff(t, "error", nil, err)
}

// idleReconciler returns a Reconciler whose cache has an idle job of so many replicas, and a request for that job.
func idleReconciler(replicas int32) (*Reconciler[*idle], reconcile.Request) {
	j, seen := idleJob(replicas)
	job := &idle{spec: j.Spec, status: j.Status}
	job.Namespace, job.Name, job.UID, job.Generation = j.Namespace, j.Name, j.UID, j.Generation
	kind := schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}
	job.status.Selector = metav1.FormatLabelSelector(metav1.SetAsLabelSelector(selectorLabels(kind.Kind, job.Name)))
	cached := &idleCache{job: job}
	cached.service.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, kind)}
	for _, p := range seen.Pods {
		cached.pods = append(cached.pods, p)
	}
	options := DefaultOptions()
	options.Clock = testingclock.NewFakePassiveClock(now)
	options.Memory = &Memory{}
	r := &Reconciler[*idle]{client: cached, framework: ofIdle{}, gvk: kind, options: options}
	return r, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
}

// idle is a job that runs.
type idle struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	spec   framework.JobSpec
	status batchv1beta1.JobStatus
}

func (j *idle) JobStatus() *batchv1beta1.JobStatus { return &j.status }
func (j *idle) DeepCopyObject() kruntime.Object {
	copied := *j
	j.DeepCopyInto(&copied.ObjectMeta)
	j.status.DeepCopyInto(&copied.status)
	return &copied
}

// ofIdle is its framework, which has no pods to wire.
type ofIdle struct{ framework.Framework[*idle] }

func (ofIdle) NewJob() *idle                       { return &idle{} }
func (ofIdle) JobSpec(job *idle) framework.JobSpec { return job.spec }
func (ofIdle) MainContainers() []string            { return []string{mainContainer} }

// idleCache is a client that reads an idle job as from a cache, which copies the job and not its pods. It writes nothing.
type idleCache struct {
	client.Client

	job     *idle
	pods    []kruntime.Object
	service corev1.Service
}

func (c *idleCache) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch object := object.(type) {
	case *idle:
		*object = *c.job.DeepCopyObject().(*idle)
	case *corev1.Service:
		*object = *c.service.DeepCopy()
	}
	return nil
}

func (c *idleCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return meta.SetList(list, c.pods)
}
