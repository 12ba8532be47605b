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

// ownedPod returns a pod of a job, at a version.
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

// without returns an object without labels, which the cache does not hold.
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
		Shown Objects
		Woken []bool
		Lags  bool
	}
	for name, tc := range map[string]struct {
		do   func(*Cache) (woken []bool)
		want result
	}{
		"it shows an update, and wakes the controller": {
			do:   func(c *Cache) []bool { return []bool{c.Tell(update(first, second), false)} },
			want: result{Shown: Objects{"pod": second, "service": firstService}, Woken: []bool{true}},
		},
		"it no longer shows what is deleted": {
			do:   func(c *Cache) []bool { return []bool{c.Tell(update(first, nil), false)} },
			want: result{Shown: Objects{"service": firstService}, Woken: []bool{true}},
		},
		"it keeps what it has of a frozen resource": {
			do: func(c *Cache) []bool {
				c.Freeze(Pods)
				return []bool{
					c.Tell(update(first, second), true),
					c.Tell(Change{Key: "service", Before: firstService}, false),
				}
			},
			want: result{Shown: Objects{"pod": first}, Woken: []bool{false, true}, Lags: true},
		},
		"it catches up with what has changed since": {
			do: func(c *Cache) []bool {
				c.Freeze(All)
				c.Tell(update(first, second), false)
				return []bool{c.CatchUp(Objects{"pod": third, "new": service("7")}, All), c.CatchUp(Objects{"pod": third}, Pods)}
			},
			want: result{Shown: Objects{"pod": third, "new": service("7")}, Woken: []bool{true, false}},
		},
		"it catches up with one resource and lags with the other": {
			do: func(c *Cache) []bool {
				c.Freeze(Pods | Services)
				return []bool{c.CatchUp(Objects{"pod": second}, Pods)}
			},
			want: result{Shown: Objects{"pod": second, "service": firstService}, Woken: []bool{true}, Lags: true},
		},
		"it loses one event": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), false)}
			},
			want: result{Shown: Objects{"pod": first, "service": firstService}, Woken: []bool{false}, Lags: true},
		},
		"it makes up for a lost event by the next one": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), false), c.Tell(update(second, third), false)}
			},
			want: result{Shown: Objects{"pod": third, "service": firstService}, Woken: []bool{false, true}},
		},
		"it does not lose what the controller itself changes": {
			do: func(c *Cache) []bool {
				c.LoseNext()
				return []bool{c.Tell(update(first, second), true)}
			},
			want: result{Shown: Objects{"pod": second, "service": firstService}, Woken: []bool{true}},
		},
		"it shows the past of some resources": {
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
			woken := tc.do(&cache)
			got := result{Shown: cache.Shown(), Woken: woken, Lags: cache.Lags()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected cache (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Objects{"pod": first, "service": firstService}, other.Shown()); diff != "" {
				t.Errorf("a copy has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesThatWakeTheController(t *testing.T) {
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
		"a pod of the job is created":              {nil, ownedPod("1"), true},
		"a pod of the job is deleted":              {ownedPod("1"), nil, true},
		"a foreign pod is created":                 {nil, foreign, false},
		"a foreign pod takes the place of the pod": {ownedPod("1"), foreign, true},
		"somebody takes the label off a pod":       {ownedPod("1"), without(ownedPod("2")), true},
		"a pod without the label changes":          {without(ownedPod("1")), without(ownedPod("2")), false},
		"somebody takes the label off the Service": {service("1"), without(service("2")), true},
		"the Service changes":                      {service("1"), service("2"), false},
		"the Service is deleted":                   {service("1"), nil, true},
		"a NetworkPolicy is created":               {nil, policy(1), false},
		"the metadata of a NetworkPolicy changes":  {policy(1), policy(1), false},
		"the spec of a NetworkPolicy changes":      {policy(1), policy(2), true},
		"a NetworkPolicy is deleted":               {policy(1), nil, true},
		"the status of the job changes":            {job(1), job(1), false},
		"the spec of the job changes":              {job(1), job(2), true},
		"the job is deleted":                       {job(1), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := changeWakes(tc.before, tc.after); got != tc.want {
				t.Errorf("wakes: %t, want %t", got, tc.want)
			}
		})
	}
}
