package work

import (
	"context"
	"errors"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/scheduler"
	"tensorstack.dev/jobs/tensorboard"
	"tensorstack.dev/jobs/test/internal/input"
)

// reconciles is how often an object is reconciled. The first reconciles create other objects for it, such as pods,
// and the last reconcile finds all of them.
const reconciles = 3

const (
	namespace = "namespace"
	queueName = "queue"
)

// jobs returns a function that does the work of a job controller for a job.
func jobs[J framework.Job](cache input.Cache, f framework.Framework[J]) func(context.Context, client.Object) error {
	return func(ctx context.Context, job client.Object) error {
		c, err := newCluster(cache, job)
		if err != nil {
			return err
		}
		r, err := controller.New(controller.Cluster{
			Client: c.cached, APIReader: c.live, Events: &events.FakeRecorder{}, Metrics: prometheus.NewRegistry(),
		}, f, controller.DefaultOptions())
		if err != nil {
			return err
		}
		return reconcileOften(ctx, r, client.ObjectKeyFromObject(job))
	}
}

// boards returns a function that does the work of the tensorboard-controller for a TensorBoard.
func boards(cache input.Cache) func(context.Context, client.Object) error {
	return func(ctx context.Context, board client.Object) error {
		c, err := newCluster(cache, board)
		if err != nil {
			return err
		}
		options := tensorboard.DefaultOptions()
		options.ClusterDomain, options.SidecarImage = "cluster.local", "sidecar"
		r := tensorboard.NewReconciler(loop.Cluster{
			Client: c.cached, APIReader: c.live, Events: &events.FakeRecorder{},
		}, options)
		return reconcileOften(ctx, r, client.ObjectKeyFromObject(board))
	}
}

// groups returns a function that does the work of the scheduler-controller for a PodGroup with a pod, in a queue that
// the namespace can use.
func groups(cache input.Cache) func(context.Context, client.Object) error {
	return func(ctx context.Context, group client.Object) error {
		queue := &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queueName}}
		queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "pod", UID: "pod-uid",
			Labels: map[string]string{schedulerv1beta1.LabelGroupName: group.GetName(), schedulerv1beta1.LabelQueue: queueName},
		}}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: schedulerv1beta1.QueueGate}}
		c, err := newCluster(cache, group, queue, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		if err != nil {
			return err
		}
		r, err := scheduler.NewReconciler(loop.Cluster{
			Client: c.cached, APIReader: c.live, Events: &events.FakeRecorder{},
		}, scheduler.DefaultOptions())
		if err != nil {
			return err
		}
		return reconcileOften(ctx, r, client.ObjectKeyFromObject(queue))
	}
}

func reconcileOften(ctx context.Context, r reconcile.Reconciler, key client.ObjectKey) error {
	var errs []error
	for range reconciles {
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cluster is an API server in memory.
type cluster struct {
	// Both clients write to the API server. The first one also reads from it. The second one reads what the cache of a
	// controller contains.
	live, cached client.WithWatch
}

// newCluster returns a cluster with copies of the objects. The cached client ignores field selectors: all objects
// belong to one job, TensorBoard or queue, so each object would match.
func newCluster(cache input.Cache, objects ...client.Object) (cluster, error) {
	scheme, err := input.Scheme()
	if err != nil {
		return cluster{}, err
	}
	for i, object := range objects {
		objects[i] = object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects[0]).Build()
	cached := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if err := c.Get(ctx, key, object, options...); err != nil {
				return err
			}
			return hold(cache, object)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := client.ListOptions{}
			asked.ApplyOptions(options).FieldSelector = nil
			if err := c.List(ctx, list, &asked); err != nil {
				return err
			}
			return meta.EachListItem(list, func(object runtime.Object) error {
				return hold(cache, object.(client.Object)) //nolint:forcetypeassert // a list has objects
			})
		},
	})
	return cluster{live: live, cached: cached}, nil
}

// hold replaces the content of an object by the content that the cache would store.
func hold(cache input.Cache, object client.Object) error {
	held, err := cache.Hold(object)
	if err == nil && held != object {
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(held).Elem())
	}
	return err
}
