package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// ownedPod returns a pod that a job owns. The pod has the given resourceVersion.
func ownedPod(version string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "pod", ResourceVersion: version, OwnerReferences: []metav1.OwnerReference{{Name: "job", Controller: new(true)}},
		Labels: map[string]string{batchv1beta1.LabelJobKind: "TestJob"},
	}}
}

func service(version string) client.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "service", ResourceVersion: version, Labels: map[string]string{batchv1beta1.LabelJobKind: "TestJob"},
	}}
}

// without removes the labels of the object and returns it. The cache of the controller does not contain such an
// object.
func without(object client.Object) client.Object {
	object.SetLabels(nil)
	return object
}

func TestCacheFollowsTheClusterUnlessItIsFrozenOrLosesAnEvent(t *testing.T) {
	t.Parallel()
	first, second, third := ownedPod("1"), ownedPod("2"), ownedPod("3")
	firstService := service("1")
	update := func(before, after client.Object) Change { return Change{Key: "pod", Before: before, After: after} }
	type result struct {
		Shown    Objects
		Enqueued []bool
		Lags     bool
	}
	for name, tc := range map[string]struct {
		do   func(*Cache) (enqueued []bool)
		want result
	}{
		"the cache shows an update and enqueues a reconcile": {
			do:   func(c *Cache) []bool { return []bool{c.Tell(update(first, second), false)} },
			want: result{Shown: Objects{"pod": second, "service": firstService}, Enqueued: []bool{true}},
		},
		"the cache no longer shows a deleted object": {
			do:   func(c *Cache) []bool { return []bool{c.Tell(update(first, nil), false)} },
			want: result{Shown: Objects{"service": firstService}, Enqueued: []bool{true}},
		},
		"the cache ignores changes to a frozen resource": {
			do: func(c *Cache) []bool {
				c.Freeze(Pods)
				return []bool{
					c.Tell(update(first, second), true),
					c.Tell(Change{Key: "service", Before: firstService}, false),
				}
			},
			want: result{Shown: Objects{"pod": first}, Enqueued: []bool{false, true}, Lags: true},
		},
		"the cache catches up with changes since it was frozen": {
			do: func(c *Cache) []bool {
				c.Freeze(All)
				c.Tell(update(first, second), false)
				return []bool{c.CatchUp(Objects{"pod": third, "new": service("7")}, All), c.CatchUp(Objects{"pod": third}, Pods)}
			},
			want: result{Shown: Objects{"pod": third, "new": service("7")}, Enqueued: []bool{true, false}},
		},
		"the cache catches up with one resource and stays frozen for the other": {
			do: func(c *Cache) []bool {
				c.Freeze(Pods | Services)
				return []bool{c.CatchUp(Objects{"pod": second}, Pods)}
			},
			want: result{Shown: Objects{"pod": second, "service": firstService}, Enqueued: []bool{true}, Lags: true},
		},
		"the cache loses one event": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), false)}
			},
			want: result{Shown: Objects{"pod": first, "service": firstService}, Enqueued: []bool{false}, Lags: true},
		},
		"the next event of an object makes up for a lost event": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), false), c.Tell(update(second, third), false)}
			},
			want: result{Shown: Objects{"pod": third, "service": firstService}, Enqueued: []bool{false, true}},
		},
		"the cache does not lose events of the controller's own changes": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), true)}
			},
			want: result{Shown: Objects{"pod": second, "service": firstService}, Enqueued: []bool{true}},
		},
		"the cache shows past objects of some resources": {
			do: func(c *Cache) []bool {
				*c = c.Behind(Objects{"pod": third, "service": service("0")}, Pods)
				return nil
			},
			want: result{Shown: Objects{"pod": third, "service": firstService}, Lags: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := NewCache(Objects{"pod": first, "service": firstService})
			other := cache
			enqueued := tc.do(&cache)
			got := result{Shown: cache.Shown(), Enqueued: enqueued, Lags: cache.Lags()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the cache is not as expected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Objects{"pod": first, "service": firstService}, other.Shown()); diff != "" {
				t.Errorf("the change also affects a copy of the cache (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesThatEnqueueAReconcile(t *testing.T) {
	t.Parallel()
	foreign := &corev1.Pod{}
	job := func(generation int64) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
	}
	policy := func(generation int64) client.Object {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"a pod of the job is created":                     {nil, ownedPod("1"), true},
		"a pod of the job is deleted":                     {ownedPod("1"), nil, true},
		"a pod without owner is created":                  {nil, foreign, false},
		"a pod without owner replaces the pod of the job": {ownedPod("1"), foreign, true},
		"a user removes the job-kind label from a pod":    {ownedPod("1"), without(ownedPod("2")), true},
		"a pod without the job-kind label changes":        {without(ownedPod("1")), without(ownedPod("2")), false},
		"a user removes the label from the Service":       {service("1"), without(service("2")), true},
		"the Service changes and keeps its label":         {service("1"), service("2"), false},
		"the Service is deleted":                          {service("1"), nil, true},
		"a NetworkPolicy is created":                      {nil, policy(1), false},
		"the metadata of a NetworkPolicy changes":         {policy(1), policy(1), false},
		"the spec of a NetworkPolicy changes":             {policy(1), policy(2), true},
		"a NetworkPolicy is deleted":                      {policy(1), nil, true},
		"the status of the job changes":                   {job(1), job(1), false},
		"the spec of the job changes":                     {job(1), job(2), true},
		"the job is deleted":                              {job(1), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := changeEnqueues(tc.before, tc.after); got != tc.want {
				t.Errorf("the change enqueues a reconcile: %t, want %t", got, tc.want)
			}
		})
	}
}
