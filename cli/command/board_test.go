package command

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestBoardOpensOnlyTheTensorBoardOfTheJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(context.Context, client.Client, *pytorchv1beta1.PyTorchTrainingJob) error
		want   string
	}{
		"the wait ends when the job is deleted": {
			func(ctx context.Context, api client.Client, job *pytorchv1beta1.PyTorchTrainingJob) error {
				return api.Delete(ctx, job)
			}, "ptjob/digits was deleted",
		},
		"the wait ends when the TensorBoard cannot be created": {
			func(ctx context.Context, api client.Client, job *pytorchv1beta1.PyTorchTrainingJob) error {
				job.Status.TensorBoard = &batchv1beta1.DependentStatus{
					Type: corev1.EventTypeWarning, Reason: "Conflict", Note: "the name is taken",
				}
				return api.Status().Update(ctx, job)
			}, "the TensorBoard of ptjob/digits does not exist: Conflict: the name is taken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, err := jobs.Scheme()
			if err != nil {
				t.Fatal(err)
			}
			meta := metav1.ObjectMeta{Name: "digits", Namespace: "a", UID: "job"}
			job := &pytorchv1beta1.PyTorchTrainingJob{ObjectMeta: meta}
			job.Spec.TensorBoardSpec = &tensorboardv1beta1.TensorBoardSpec{}
			other := &tensorboardv1beta1.TensorBoard{ObjectMeta: meta}
			other.UID = "board"
			other.Spec.Suspend = true
			byName := func(object client.Object) []string { return []string{object.GetName()} }
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job, other).WithStatusSubresource(job).
				WithIndex(job, "metadata.name", byName).WithIndex(other, "metadata.name", byName).
				WithInterceptorFuncs(interceptor.Funcs{Watch: watchUntilDone}).Build()
			e := &environment{IOStreams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := jobs.Job{Kind: jobs.Kinds[0], Job: job.DeepCopy()}
			if err := tc.change(ctx, api, job); err != nil {
				t.Fatal(err)
			}
			_, err = e.awaitBoard(ctx, &cluster{WithWatch: api}, before, client.ObjectKeyFromObject(job), true)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
			if err := api.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil || !other.Spec.Suspend {
				t.Errorf("the TensorBoard of another owner was started (%v)", err)
			}
		})
	}
}

// watchUntilDone watches until the context ends. The fake client itself ignores the end of the context.
func watchUntilDone(
	ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
) (watch.Interface, error) {
	events, err := c.Watch(ctx, list, options...)
	if err == nil {
		context.AfterFunc(ctx, events.Stop)
	}
	return events, err
}
