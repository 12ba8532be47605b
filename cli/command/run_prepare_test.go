package command

import (
	"context"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/run"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// interrupted returns a preparation for a cluster with these objects. The first read from this cluster fails.
func interrupted(objects ...client.Object) *preparation {
	failed := false
	api := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
		) error {
			if !failed {
				failed = true
				return apierrors.NewServiceUnavailable("the API server starts")
			}
			return c.Get(ctx, key, object, o...)
		},
	}).Build()
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	job.SetUID("new")
	return &preparation{
		cluster: &cluster{WithWatch: api}, screen: newConsole(io.Discard, io.Discard), objects: &run.Objects{Job: job},
	}
}

func TestAFailedReadDoesNotEndTheWaitForThePod(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "digits-code", Namespace: "a"}}
	running := pod.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	if err := interrupted(running).waitForPod(t.Context(), pod); err != nil {
		t.Error(err)
	}
}

func TestAFailedReadDoesNotEndTheWaitForAnObjectOfAnEarlierJob(t *testing.T) {
	t.Parallel()
	code := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "digits-code", Namespace: "a",
		OwnerReferences: []metav1.OwnerReference{{Kind: "PyTorchTrainingJob", Name: "digits", UID: "new"}},
	}}
	if err := interrupted(code.DeepCopy()).createOwned(t.Context(), code); err != nil {
		t.Error(err)
	}
}

// withKueue returns a preparation of a job in a LocalQueue, or in none, and the pod of its upload. The API server
// imitates Kueue with manageJobsWithoutQueueName: it adds a gate to pods, and lets a pod run that gets a queue.
func withKueue(t *testing.T, localQueue string) (*preparation, *corev1.Pod) {
	t.Helper()
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			if pod, ok := object.(*corev1.Pod); ok {
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: kueueGate}}
			}
			return c.Create(ctx, object, o...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
		) error {
			if err := c.Patch(ctx, object, patch, o...); err != nil {
				return err
			}
			if pod, ok := object.(*corev1.Pod); ok && pod.Labels[kueuev1beta2.LabelQueueName] != "" {
				pod.Status.Phase = corev1.PodRunning
				return c.Status().Update(ctx, pod)
			}
			return nil
		},
	}).Build()
	job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	job.SetName("digits")
	if localQueue != "" {
		job.SetLabels(map[string]string{kueuev1beta2.LabelQueueName: localQueue})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "digits-upload", Namespace: "a"}}
	return &preparation{
		cluster: &cluster{WithWatch: api}, screen: newConsole(io.Discard, io.Discard),
		objects: &run.Objects{Job: job, Upload: pod},
	}, pod
}

func TestTheUploadEntersTheLocalQueueOfTheJobIfKueueHoldsItsPod(t *testing.T) {
	t.Parallel()
	p, pod := withKueue(t, "research")
	if err := p.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := p.waitForPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Labels[kueuev1beta2.LabelQueueName]; got != "research" {
		t.Errorf("the LocalQueue of the pod is %q, want research", got)
	}
}

func TestTheUploadFailsIfKueueHoldsItsPodAndTheJobHasNoLocalQueue(t *testing.T) {
	t.Parallel()
	p, pod := withKueue(t, "")
	if err := p.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := p.waitForPod(t.Context(), pod); !errors.Is(err, errNoLocalQueue) {
		t.Errorf("the error is %v, want %v", err, errNoLocalQueue)
	}
}

func TestADryRunShowsTheLocalQueueOfThePodIfKueueHoldsIt(t *testing.T) {
	t.Parallel()
	p, pod := withKueue(t, "research")
	if err := checkObjects(t.Context(), p.cluster, p.objects); err != nil {
		t.Fatal(err)
	}
	if got := pod.Labels[kueuev1beta2.LabelQueueName]; got != "research" {
		t.Errorf("the LocalQueue of the pod is %q, want research", got)
	}
	p, _ = withKueue(t, "")
	if err := checkObjects(t.Context(), p.cluster, p.objects); !errors.Is(err, errNoLocalQueue) {
		t.Errorf("the error is %v, want %v", err, errNoLocalQueue)
	}
}

func TestOnlyAPodThatKueueHoldsWithoutAQueueLacksALocalQueue(t *testing.T) {
	t.Parallel()
	gates := []corev1.PodSchedulingGate{{Name: kueueGate}}
	inQueue := map[string]string{kueuev1beta2.LabelQueueName: "default"}
	for name, test := range map[string]struct {
		labels map[string]string
		gates  []corev1.PodSchedulingGate
		want   bool
	}{
		"held without a queue":               {gates: gates, want: true},
		"held in the default queue of Kueue": {gates: gates, labels: inQueue},
		"held by something else":             {gates: []corev1.PodSchedulingGate{{Name: schedulerv1beta1.QueueGate}}},
		"not held":                           {},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: test.gates}}
		pod.Labels = test.labels
		if got := lacksLocalQueue(pod); got != test.want {
			t.Errorf("%s: lacksLocalQueue returns %t, want %t", name, got, test.want)
		}
	}
}
