package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// BenchmarkReconcile measures a reconcile that changes nothing: it reads the cache and compares the status.
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

// The cost of reconciling an idle job is linear in the number of its replicas.
func TestAllocationsOfAReconcileGrowWithTheReplicas(t *testing.T) {
	reconcileIdle := func(replicas int32) func() {
		r, request := idleReconciler(replicas)
		return func() {
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Error(err)
			}
		}
	}
	if linear, measured := jobtest.AllocatesLinearly(reconcileIdle); !linear {
		t.Error(measured)
	}
}

// The benchmarks rely on this: a reconcile of an idle job changes nothing.
func TestReconcileOfAnIdleJobChangesNothing(t *testing.T) {
	t.Parallel()
	r, request := idleReconciler(4) // its client panics on every write
	status := r.cluster.Client.(*idleCache).job.status
	diff(t, "phase", batchv1beta1.JobPhaseRunning, status.Phase)
	diff(t, "observed generation", int64(1), status.ObservedGeneration)
	diff(t, "selector", "batch.tensorstack.dev/job-kind=TestJob,batch.tensorstack.dev/job-name=job", status.Selector)
	result, err := r.Reconcile(t.Context(), request)
	diff(t, "result", reconcile.Result{}, result)
	diff(t, "error", nil, err)
}

// idleReconciler returns a Reconciler and a request for an idle job with the given number of replicas.
func idleReconciler(replicas int32) (*Reconciler[*idle], reconcile.Request) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: mainContainer}}}}
	job := &idle{spec: framework.JobSpec{
		Roles: []framework.Role{
			{Type: "master", Replicas: 1, Template: template}, {Type: "worker", Replicas: replicas - 1, Template: template},
		},
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
	}}
	job.Namespace, job.Name, job.UID, job.Generation = "ns", "job", "job-uid", 1
	owner := *metav1.NewControllerRef(job, testKind)
	cached := &idleCache{job: job}
	cached.service.OwnerReferences = []metav1.OwnerReference{owner}
	seen := view.Observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for i, member := range framework.NewPeers(job.Namespace, job.Name, job.UID, "", 0, job.spec.Roles).Members {
		p := pod(member.Name, onNode(fmt.Sprintf("node-%d", i)), running)
		p.OwnerReferences = []metav1.OwnerReference{owner}
		cached.pods = append(cached.pods, p)
		seen.Pods[p.Name] = p
	}
	options := DefaultOptions()
	options.Clock = testingclock.NewFakePassiveClock(now)
	options.Memory = &Memory{}
	r := &Reconciler[*idle]{
		cluster:   Cluster{Client: cached, Progress: noProgress{}},
		framework: ofIdle{}, gvk: testKind, options: options,
		jobs:      large.NewReader(nil, costOfLargeJob, largeJobMemory),
		podGroups: dependents.NewPodGroups(dependents.Cluster{}),
		tensorBoards: dependents.NewTensorBoards(
			dependents.Cluster{Clock: options.Clock, Retry: options.DependentRetry}, &dependents.DelayedChanges{}),
	}
	job.status = plan.Decide(plannedJob(ofIdle{}, testKind, options.Settings, job), seen, now.Add(-time.Minute)).Status
	return r, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
}

// idle is a running job that needs no change.
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

// ofIdle is the framework of idle jobs. It does not implement Wire, because a reconcile of an idle job creates no
// pods.
type ofIdle struct{ framework.Framework[*idle] }

func (ofIdle) NewJob() *idle                       { return &idle{} }
func (ofIdle) JobSpec(job *idle) framework.JobSpec { return job.spec }
func (ofIdle) MainContainers() []string            { return []string{mainContainer} }

// idleCache is a read-only client of a cache with one idle job. A read copies the job, but not the pods.
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
