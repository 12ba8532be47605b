package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// lister is an API server that lists dependents, or fails to.
type lister struct {
	client.Reader

	answer error
	calls  int
}

func (l *lister) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.calls++
	return l.answer
}

// dependentCache is a cache that has what there is once it is synced.
type dependentCache struct {
	cache.Cache
	cache.Informer

	synced bool
}

func (c *dependentCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return c, nil
}

func (c *dependentCache) HasSynced() bool { return c.synced }

func TestDependentWatch(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(now)
	api := &lister{answer: &meta.NoKindMatchError{}}
	started := &dependentCache{}
	starts := 0
	w := &dependentWatch{
		apiReader: api, retry: time.Minute, clock: clock,
		object: &tensorboardv1beta1.TensorBoard{}, list: &tensorboardv1beta1.TensorBoardList{}, notInstalled: tensorBoardsNotInstalled,
		start: func() (cache.Cache, error) { starts++; return started, nil },
	}
	look := func(what, wantReason string, wantReader bool, wantLists, wantStarts int) {
		t.Helper()
		reader, problem := w.reader(t.Context(), "ns")
		reason := ""
		if problem != nil {
			reason = problem.Reason
		}
		diff(t, "reason "+what, wantReason, reason)
		diff(t, "reader "+what, wantReader, reader != nil)
		diff(t, "requests "+what, wantLists, api.calls)
		diff(t, "starts "+what, wantStarts, starts)
	}
	look("of a kind that is not installed", "NotInstalled", false, 1, 0)
	look("soon after", "NotInstalled", false, 1, 0)
	clock.SetTime(now.Add(time.Minute))
	api.answer = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
	look("of a kind that may not be listed", "ReadFailed", false, 2, 0)
	clock.SetTime(now.Add(2 * time.Minute))
	api.answer = apierrors.NewTimeoutError("slow", 1)
	look("while the API server does not answer", "", false, 3, 0)
	clock.SetTime(now.Add(2*time.Minute + dependentDelay))
	api.answer = nil
	look("of a kind that was installed", "", false, 4, 1)
	look("while the cache fills", "", false, 4, 1)
	clock.SetTime(now.Add(4 * time.Minute))
	api.answer = apierrors.NewNotFound(schema.GroupResource{}, "")
	look("of a kind that was removed before the cache was filled", "NotInstalled", false, 5, 1)
	started.synced = true
	look("once the cache is filled", "", true, 5, 1)
	started.synced = false
	clock.SetTime(now.Add(time.Hour))
	look("later", "", true, 5, 1)
}

// dependents is an API server that gives one answer to every change of a dependent.
type dependents struct {
	client.Client

	answer error
	// owner controls the dependent that is there.
	owner types.UID
	// calls are the changes, and how often the status of the job was written.
	calls []string
}

func (d *dependents) Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = errors.Join(schedulerv1beta1.AddToScheme(scheme), tensorboardv1beta1.AddToScheme(scheme))
	return scheme
}

func (d *dependents) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetOwnerReferences([]metav1.OwnerReference{{UID: d.owner, Controller: new(true)}})
	return nil
}

func (d *dependents) changed(what string, noWait bool) error {
	d.calls = append(d.calls, what)
	if !noWait {
		d.calls = append(d.calls, "the client would wait for the cache")
	}
	return d.answer
}
