package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/loop"
)

var jobName = types.NamespacedName{Namespace: "ns", Name: "job"}

// heldPod returns the held pod of a leader. It has only the given labels.
func heldPod(labels map[string]string) *corev1.Pod {
	p := pod("job-worker-0", running)
	p.Namespace, p.Labels = "ns", labels
	p.Finalizers = []string{"example.org/backup", batchv1beta1.FinalizerLeader}
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true)},
	}
	return p
}

// leaves returns a reconciler that has received the deletion event of a pod, because the pod left the cache.
func leaves(t *testing.T, c client.WithWatch, pod *corev1.Pod) *Reconciler[framework.Job] {
	t.Helper()
	r := &Reconciler[framework.Job]{
		gvk: testKind, cluster: Cluster{Client: c, APIReader: c}, options: Options{Memory: &Memory{}},
	}
	options := loop.Options(1)
	q := options.NewQueue(t.Name(), options.RateLimiter)
	t.Cleanup(q.ShutDown)
	r.podEvents().Delete(t.Context(), ctrlevent.DeleteEvent{Object: pod}, q)
	diff(t, "jobs in the queue", 1, q.Len())
	return r
}

// A held pod leaves the cache if it was deleted or if somebody changed its labels. Only in the second case must the
// controller release it.
func TestHeldPodThatLeavesTheCacheIsReleased(t *testing.T) {
	t.Parallel()
	kindOf := func(kind string) map[string]string { return map[string]string{batchv1beta1.LabelJobKind: kind} }
	released, kept := []string{"example.org/backup"}, []string{"example.org/backup", batchv1beta1.FinalizerLeader}
	for name, tc := range map[string]struct {
		live *corev1.Pod
		want []string
	}{
		"a pod without the job-kind label is released":         {heldPod(nil), released},
		"a pod with the label of another job kind is released": {heldPod(kindOf("OtherJob")), released},
		"a pod that the cache selects again is not released":   {heldPod(kindOf("TestJob")), kept},
		"a deleted pod is ignored":                             {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			if tc.live != nil {
				b = b.WithObjects(tc.live)
			}
			c := b.Build()
			r := leaves(t, c, heldPod(kindOf("TestJob")))
			if err := r.releaseRelabelled(t.Context(), jobName); err != nil {
				t.Fatal(err)
			}
			live := &corev1.Pod{}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(heldPod(nil)), live)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			diff(t, "finalizers", tc.want, live.Finalizers)
			diff(t, "pods left to check", []string(nil), r.options.Memory.left.take(jobName))
		})
	}
}

func TestReleaseOfAPodThatLeftTheCacheIsRetried(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	}).Build()
	r := leaves(t, c, heldPod(nil))
	if err := r.releaseRelabelled(t.Context(), jobName); !errors.Is(err, down) {
		t.Errorf("the error is %v, want %v", err, down)
	}
	diff(t, "pods left to check", []string{"job-worker-0"}, r.options.Memory.left.take(jobName))
}

func TestJobOfAPod(t *testing.T) {
	t.Parallel()
	r := &Reconciler[framework.Job]{gvk: testKind}
	named := map[string]string{batchv1beta1.LabelJobName: "label"}
	foreign := func(p *corev1.Pod) *corev1.Pod { p.OwnerReferences[0].Kind = "ReplicaSet"; return p }
	outside := func(p *corev1.Pod) *corev1.Pod { p.OwnerReferences[0].Name = "../../../openapi/v2"; return p }
	free := func(p *corev1.Pod) *corev1.Pod { p.Finalizers = nil; return p }
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		want      string
		wantIndex []string
	}{
		"a held pod belongs to its owner, whatever its labels":   {heldPod(named), "job", []string{"job"}},
		"a pod that is not held belongs to its owner":            {free(heldPod(named)), "job", nil},
		"a held pod without an owning job is found by its label": {foreign(heldPod(named)), "label", []string{"label"}},
		"a held pod without an owning job or a label is found by its own name": {
			foreign(heldPod(nil)), "job-worker-0", []string{"job-worker-0"},
		},
		"a held pod whose owner has a path for a name is found by its label": {
			outside(heldPod(named)), "label", []string{"label"},
		},
		"a pod whose owner has a path for a name has no job": {free(outside(heldPod(named))), "", nil},
		"a pod of another owner has no job":                  {free(foreign(heldPod(named))), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "job", tc.want, r.jobOf(tc.pod))
			diff(t, "index", tc.wantIndex, r.jobsOfHeld(tc.pod))
		})
	}
}
