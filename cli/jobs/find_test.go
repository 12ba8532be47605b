package jobs_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/cli/jobs"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// The discovery cache of kubectl can still list a kind whose CRD is gone. The API server then responds with 404.
func TestListIgnoresAKindThatIsNotServedAnymore(t *testing.T) {
	t.Parallel()
	scheme, err := jobs.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	gone := func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*deepspeedv1beta1.DeepSpeedJobList); ok {
			resource := schema.GroupResource{Resource: "deepspeedjobs"}
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "", "", 0, true)
		}
		return c.List(ctx, list, options...)
	}
	job := &pytorchv1beta1.PyTorchTrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "digits", Namespace: "a"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job).
		WithInterceptorFuncs(interceptor.Funcs{List: gone}).Build()
	found, err := jobs.List(t.Context(), c, jobs.Kinds)
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, job := range found {
		refs = append(refs, job.Ref())
	}
	if diff := cmp.Diff([]string{"ptjob/digits"}, refs); diff != "" {
		t.Error(diff)
	}
}
