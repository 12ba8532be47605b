package dependents

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// lister is an API server that can only list dependents.
type lister struct {
	client.Reader

	answer error
	calls  int
}

func (l *lister) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.calls++
	return l.answer
}

// dependentCache is a fake cache. The test sets whether it has synced.
type dependentCache struct {
	cache.Cache
	cache.Informer

	synced bool
}

func (c *dependentCache) GetInformer(
	context.Context, client.Object, ...cache.InformerGetOption,
) (cache.Informer, error) {
	return c, nil
}

func (c *dependentCache) HasSynced() bool { return c.synced }

// looked is the result of a call of reader.
type looked struct {
	// Reason is the reason of the problem.
	Reason string
	// Reader reports whether there is a reader.
	Reader bool
	// Lists is the number of list requests so far, and Starts is the number of starts of the cache so far.
	Lists, Starts int
}

func TestWatch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	clock := testingclock.NewFakePassiveClock(now)
	api := &lister{answer: &meta.NoKindMatchError{}}
	started := &dependentCache{}
	starts := 0
	s := newStore(tensorBoardKind(), Cluster{APIReader: api, Clock: clock, Retry: time.Minute})
	s.start = func() (cache.Cache, error) { starts++; return started, nil }
	look := func(when, wantReason string, wantReader bool, wantLists, wantStarts int) {
		t.Helper()
		reader, problem := s.reader(t.Context(), "ns")
		got := looked{Reader: reader != nil, Lists: api.calls, Starts: starts}
		if problem != nil {
			got.Reason = problem.Reason
		}
		if diff := cmp.Diff(looked{wantReason, wantReader, wantLists, wantStarts}, got); diff != "" {
			t.Errorf("unexpected result %s (-want +got):\n%s", when, diff)
		}
	}
	look("while the kind is not installed", "NotInstalled", false, 1, 0)
	look("before the next check", "NotInstalled", false, 1, 0)
	clock.SetTime(now.Add(time.Minute))
	api.answer = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no permission"))
	look("while the kind cannot be listed", "ReadFailed", false, 2, 0)
	clock.SetTime(now.Add(2 * time.Minute))
	api.answer = apierrors.NewTimeoutError("slow", 1)
	look("while the API server does not respond", "", false, 3, 0)
	clock.SetTime(now.Add(2*time.Minute + retryDelay))
	api.answer = nil
	look("after the kind was installed", "", false, 4, 1)
	look("while the cache is not synced", "", false, 4, 1)
	clock.SetTime(now.Add(4 * time.Minute))
	api.answer = apierrors.NewNotFound(schema.GroupResource{}, "")
	look("after the kind was removed before the cache synced", "NotInstalled", false, 5, 1)
	started.synced = true
	look("after the cache has synced", "", true, 5, 1)
	started.synced = false
	clock.SetTime(now.Add(time.Hour))
	look("after the cache was synced once", "", true, 5, 1)
}

func TestCacheKeepsTheControllerOfADependent(t *testing.T) {
	t.Parallel()
	controlledBy := func(owners ...metav1.OwnerReference) *schedulerv1beta1.PodGroup {
		meta := metav1.ObjectMeta{Namespace: "ns", Name: "job", OwnerReferences: owners}
		return &schedulerv1beta1.PodGroup{ObjectMeta: meta}
	}
	job := metav1.OwnerReference{Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true)}
	other := metav1.OwnerReference{Kind: "ConfigMap", Name: "other", UID: "other-uid"}
	for name, tc := range map[string]struct{ seen, want *schedulerv1beta1.PodGroup }{
		"a dependent that a job controls keeps that owner":  {controlledBy(other, job), controlledBy(job)},
		"a dependent without a controller loses its owners": {controlledBy(other), controlledBy()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.seen.Labels = map[string]string{"team": "vision"}
			tc.seen.Annotations = map[string]string{"note": "long"}
			tc.seen.Finalizers = []string{"example.org/stays"}
			got, err := podGroupKind().transform(tc.seen)
			if diff := cmp.Diff(any(tc.want), got); diff != "" || err != nil {
				t.Errorf("unexpected object (-want +got):\n%s%v", diff, err)
			}
		})
	}
}
