package command

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
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

func TestObserveWaitsAfterAWatchThatEnds(t *testing.T) {
	t.Parallel()
	c := &cluster{WithWatch: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			return watch.NewEmptyWatch(), nil
		},
	}).Build()}
	var seen []time.Time
	err := c.observe(t.Context(), &corev1.PodList{}, func(map[string]client.Object) (bool, error) {
		seen = append(seen, time.Now())
		return len(seen) == 2, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if delay, want := seen[1].Sub(seen[0]), reconnectDelays().Duration; delay < want {
		t.Errorf("the watch was started again after %s, want at least %s", delay, want)
	}
}
