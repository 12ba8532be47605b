package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// brokenEngine cannot be told of some groups.
type brokenEngine struct {
	native

	problems map[string]error
}

func (e *brokenEngine) hindrance(context.Context, []groupView) (map[string]hindrance, error) {
	return nil, nil
}

func (e *brokenEngine) syncGroup(
	_ context.Context, group *v1beta1.PodGroup, pods []*corev1.Pod, class string,
) (string, error) {
	if err := e.problems[group.Name]; err != nil {
		return class, err
	}
	return classOf(pods, class)
}

// newTestClient knows a queue "lab" that takes the namespace "team", and objects there.
func newTestClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(
		v1beta1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme), volcanov1beta1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	label := func(name string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{o.GetLabels()[name]} }
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).
		WithObjects(append(objects, newQueue(nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})...).
		WithStatusSubresource(&v1beta1.PodGroup{}, &v1beta1.Queue{}, &volcanov1beta1.Queue{}).
		WithIndex(&v1beta1.PodGroup{}, groupsByQueue,
			func(o client.Object) []string { return []string{o.(*v1beta1.PodGroup).Spec.Queue} }).
		WithIndex(&corev1.Pod{}, podsByQueue, label(v1beta1.LabelQueue)).
		WithIndex(&corev1.Pod{}, podsByGroup, label(v1beta1.LabelGroupName)).
		Build()
}

// A group may have pods only when the engine knows of it, and one of which it does not holds up no other.
func TestGroupsThatTheEngineCannotBeToldOf(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	names := []string{"fine", "in-the-way", "unknown"}
	for _, name := range names {
		objects = append(objects, newGroup(name, 1).Group)
	}
	c := newTestClient(t, objects...)
	later := errors.New("the API server is down")
	problems := map[string]error{
		"in-the-way": &report.RefusedError{Reason: "NameConflict", Err: errors.New("another is in the way")},
		"unknown":    later,
	}
	r := &reconciler{
		client: c, engine: &brokenEngine{problems: problems}, events: events.NewFakeRecorder(10),
		clock: testclock.NewFakePassiveClock(now),
	}
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
	want := map[string]string{
		"fine": `Admitted: Queue "lab" takes the group`, "in-the-way": "EngineNotReady: another is in the way",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected groups are admitted (-want +got):\n%s", diff)
	}
	delete(problems, "unknown")
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != refusedDelay {
		t.Errorf("looks again in %s (%v), want %s", result.RequeueAfter, err, refusedDelay)
	}
}

// The API server refuses a group whose PriorityClass it has not seen yet, which is over soon.
func TestRefusalOfAGroupIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	class := (&native{}).priorityClass(newQueue(nil), newGroup("training", 1).Group)
	classOfAge := func(age time.Duration) []client.Object {
		created := metav1.ObjectMeta{Name: class.Name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
		return []client.Object{&schedulingv1.PriorityClass{ObjectMeta: created, Value: class.Value}}
	}
	for name, test := range map[string]struct {
		classes []client.Object
		want    time.Duration
	}{
		"soon when its PriorityClass was just created": {want: goneDelay},
		"soon while its PriorityClass is new":          {classes: classOfAge(time.Second), want: goneDelay},
		"later when its PriorityClass is old":          {classes: classOfAge(newClassAge), want: refusedDelay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noClass := errors.New("no PriorityClass was found")
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "training", noClass)
			r := &reconciler{
				client: newTestClient(t, append(test.classes, newGroup("training", 1).Group)...),
				engine: &brokenEngine{problems: map[string]error{"training": forbidden}},
				events: events.NewFakeRecorder(1), clock: testclock.NewFakePassiveClock(now),
			}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}})
			if err != nil || result.RequeueAfter != test.want {
				t.Errorf("looks again in %s (%v), want %s", result.RequeueAfter, err, test.want)
			}
		})
	}
}

// The log tells what becomes of a group, and nothing where nothing changes.
func TestLogOfAGroup(t *testing.T) {
	t.Parallel()
	const needed = 2
	group := newGroup("training", needed).Group
	c := newTestClient(t, group)
	r := &reconciler{
		client: c, engine: &brokenEngine{}, events: events.NewFakeRecorder(10), clock: testclock.NewFakePassiveClock(now),
	}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	look := func() {
		t.Helper()
		if _, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	look()
	for _, name := range []string{"training-0", "training-1"} {
		pod := newPod(running, func(pod *corev1.Pod) {
			pod.Namespace, pod.Name, pod.Labels = "team", name, map[string]string{
				v1beta1.LabelGroupName: "training", v1beta1.LabelQueue: "lab",
			}
		})
		if err := c.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
		look()
	}
	var queue v1beta1.Queue
	if err := c.Get(ctx, client.ObjectKey{Name: "lab"}, &queue); err != nil {
		t.Fatal(err)
	}
	queue.Spec.Closed, queue.Spec.MaxDuration = true, new(v1beta1.Duration("30m"))
	if err := c.Update(ctx, &queue); err != nil {
		t.Fatal(err)
	}
	look()
	want := []string{
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="Admitted" "status"="True" "reason"="Admitted"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="Active" "status"="True" "reason"="Open"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="FairShareHonoured" "status"="False" "reason"="NotSupportedByEngine"`,
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="GroupScheduled" "status"="True" "reason"="Scheduled"`,
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="Admitted" "status"="False" "reason"="QueueClosed"`,
		`"level"=0 "msg"="MaxDuration" "pod"={"name"="training-0" "namespace"="team"} "maxDuration"="30m"`,
		`"level"=0 "msg"="MaxDuration" "pod"={"name"="training-1" "namespace"="team"} "maxDuration"="30m"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="Active" "status"="False" "reason"="QueueClosed"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="ClosedHonoured" "status"="False" "reason"="NotSupportedByEngine"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
}

// What is left of a group that was deleted has what it has until it ends, also if a group of the name is in another
// queue by then.
func TestPodsWhoseGroupIsGone(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name, group string, changes ...func(*corev1.Pod)) *corev1.Pod {
		pod := newPod(changes...)
		pod.Namespace, pod.Name = namespace, name
		pod.Labels = map[string]string{v1beta1.LabelQueue: "lab", v1beta1.LabelGroupName: group}
		return pod
	}
	other := newQueue(nil)
	other.Name = "other"
	moved := newGroup("moved", 1).Group
	moved.Spec.Queue = "other"
	r := &reconciler{engine: &brokenEngine{}, client: newTestClient(t, newGroup("there", 1).Group, other, moved,
		pod("team", "let-through", "moved", running, released), pod("team", "of-the-other", "moved", running),
		pod("team", "left", "gone", running), pod("team", "ended", "gone", succeeded), pod("team", "waits", "gone"),
		pod("team", "member", "there", running), pod("elsewhere", "not-of-the-queue", "gone", running))}
	for queue, want := range map[string][]string{"lab": {"left", "let-through"}, "other": nil} {
		view, err := r.observe(t.Context(), queue)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range view.Orphans {
			got = append(got, pod.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected orphans of %s (-want +got):\n%s", queue, diff)
		}
	}
}
