package scheduler

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/owned"
)

// brokenEngine cannot be told of some groups.
type brokenEngine struct {
	native

	problems map[string]error
}

func (e *brokenEngine) hindrance(context.Context, []groupView) (hindrance, error) {
	return hindrance{}, nil
}

func (e *brokenEngine) syncGroup(_ context.Context, group *v1beta1.PodGroup, _ []*corev1.Pod, _ string) error {
	return e.problems[group.Name]
}

// A group may have pods only when the engine knows of it, and one of which it does not holds up no other.
func TestGroupsThatTheEngineCannotBeToldOf(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{newQueue(nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}}
	names := []string{"fine", "in-the-way", "unknown"}
	for _, name := range names {
		objects = append(objects, newGroup(name, 1).Group)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta1.PodGroup{}, &v1beta1.Queue{}).
		WithIndex(&v1beta1.PodGroup{}, groupsByQueue, func(o client.Object) []string {
			return []string{o.(*v1beta1.PodGroup).Spec.Queue}
		}).
		WithIndex(&corev1.Pod{}, podsByGroup, func(o client.Object) []string { return []string{o.GetLabels()[v1beta1.LabelGroupName]} }).
		Build()
	later := errors.New("the API server is down")
	problems := map[string]error{
		"in-the-way": &owned.RefusedError{Reason: "NameConflict", Err: errors.New("another is in the way")}, "unknown": later,
	}
	r := &reconciler{client: c, engine: &brokenEngine{problems: problems}, events: events.NewFakeRecorder(10), clock: testclock.NewFakePassiveClock(now)}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}}
	if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, later) {
		t.Errorf("got error %v, want %v", err, later)
	}
	got := map[string]string{}
	for _, name := range names {
		var group v1beta1.PodGroup
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &group); err != nil {
			t.Fatal(err)
		}
		if admitted := meta.FindStatusCondition(group.Status.Conditions, v1beta1.ConditionAdmitted); admitted != nil {
			got[name] = admitted.Reason + ": " + admitted.Message
		}
	}
	want := map[string]string{"fine": `Admitted: Queue "lab" takes the group`, "in-the-way": "EngineNotReady: another is in the way"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected groups are admitted (-want +got):\n%s", diff)
	}
	delete(problems, "unknown")
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != refusedDelay {
		t.Errorf("looks again in %s (%v), want %s", result.RequeueAfter, err, refusedDelay)
	}
}
