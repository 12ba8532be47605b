package tensorboard

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/loop"
)

// Slow reads must not use up the delay before the next reconcile. If they did, TensorBoards would be reconciled
// without a pause, which would make the reads even slower.
func TestADelayBeginsAfterTheReads(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	board := &v1beta1.TensorBoard{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "board"},
		Spec:       v1beta1.TensorBoardSpec{TrainingLogFilesets: []v1beta1.FilesetURI{"t9k://pvc/data/logs"}},
	}
	options := DefaultOptions()
	clock := testclock.NewFakeClock(now)
	options.Clock = clock
	c := interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme).WithObjects(board).WithStatusSubresource(board).Build(),
		interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption,
		) error {
			if _, isClaim := into.(*corev1.PersistentVolumeClaim); isClaim {
				clock.Step(time.Minute)
			}
			return c.Get(ctx, key, into, options...)
		}})
	r := newReconciler(loop.Cluster{Client: c, APIReader: c, Events: events.NewFakeRecorder(10)}, options)
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(board)})
	if err != nil || result.RequeueAfter != pollInterval {
		t.Errorf("the TensorBoard is requeued after %s (%v), want %s", result.RequeueAfter, err, pollInterval)
	}
}
