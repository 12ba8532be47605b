package command

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

func TestObserveDoesNotWaitForAKind(t *testing.T) {
	t.Parallel()
	notServed := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "tensorstack.dev", Kind: "TensorBoard"}}
	c := &cluster{WithWatch: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return notServed
		},
	}).Build()}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	never := func(map[string]client.Object) (bool, error) { return false, nil }
	if err := c.observe(ctx, &tensorboardv1beta1.TensorBoardList{}, never); !errors.Is(err, notServed) {
		t.Errorf("got the error %v, want %v", err, notServed)
	}
}
