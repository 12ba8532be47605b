package controller

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// laggingCache is a cache that never shows the writes of one pod. Like the client of controller-runtime, it makes a
// read of the pod wait for these writes. It makes a list wait as well, unless DisableReadYourWritesConsistency is
// set.
type laggingCache struct {
	*idleCache

	// hidden is the name of the pod whose writes the cache never shows.
	hidden string
	// awaited are the names of the pods that were read.
	awaited []string
}

func (c *laggingCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, isPod := object.(*corev1.Pod); !isPod {
		return c.idleCache.Get(ctx, key, object, options...)
	}
	c.awaited = append(c.awaited, key.Name)
	if key.Name == c.hidden {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *laggingCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if !(&client.ListOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.idleCache.List(ctx, list, options...)
}

func TestReconcileWaitsForThePodsThatItsJobWrote(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		written map[string][]string // by job
		hidden  string
		want    []string
	}{
		"a reconcile does not wait if no pods were written":    {},
		"a reconcile does not wait for the pods of other jobs": {written: map[string][]string{"other": {"other-worker-0"}}},
		"a reconcile waits for each pod of its own job": {
			written: map[string][]string{"job": {"a", "b"}}, want: []string{"a", "b"},
		},
		"a reconcile does not wait forever for a pod that lost its label": {
			written: map[string][]string{"job": {"a", "b"}}, hidden: "a", want: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, request := idleReconciler(2)
			cache := &laggingCache{idleCache: r.cluster.Client.(*idleCache), hidden: tc.hidden}
			r.cluster.Client = cache
			for job, pods := range tc.written {
				for _, pod := range pods {
					r.options.Memory.written.add(types.NamespacedName{Namespace: "ns", Name: job}, pod)
				}
			}
			result, err := r.Reconcile(t.Context(), request)
			diff(t, "error", nil, err)
			diff(t, "result", reconcile.Result{}, result)
			diff(t, "awaited pods", tc.want, cache.awaited)
		})
	}
}
