package command

import (
	"context"
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
