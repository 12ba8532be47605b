package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// brokenEngine is an engine that fails to sync some groups.
type brokenEngine struct {
	native

	problems map[string]error
}

func (e *brokenEngine) blockers(context.Context, []groupView) (map[string]blocker, error) {
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

// newTestClient returns a client with a queue "lab" that selects all namespaces, a namespace "team", and the given
// objects.
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

// A group is admitted only after it was synced with the engine. A group that cannot be synced does not block others.
func TestGroupsThatCannotBeSyncedWithTheEngineAreNotAdmitted(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	names := []string{"fine", "name-conflict", "earlier", "unknown"}
	for _, name := range names {
		objects = append(objects, newGroup(name, 1).Group)
	}
	c := newTestClient(t, objects...)
	later := errors.New("the API server is down")
	problems := map[string]error{
		"name-conflict": &report.RefusedError{Reason: "NameConflict", Err: errors.New("the name is in use")},
		"earlier":       &report.RefusedError{Reason: "EarlierGroup", Err: errors.New("its pods have not ended")},
		"unknown":       later,
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
		"fine": `Admitted: Queue "lab" takes the group`, "name-conflict": "EngineNotReady: the name is in use",
		"earlier": "EarlierGroup: its pods have not ended",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected conditions Admitted (-want +got):\n%s", diff)
	}
	delete(problems, "unknown")
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != goneDelay {
		t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, goneDelay)
	}
	delete(problems, "earlier")
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != refusedDelay {
		t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, refusedDelay)
	}
}

// The API server rejects a group whose PriorityClass it has not seen yet, so a retry soon after helps.
func TestRejectedGroupsAreRetried(t *testing.T) {
	t.Parallel()
	class := (&native{}).priorityClass(newQueue(nil), newGroup("training", 1).Group)
	classOfAge := func(age time.Duration) []client.Object {
		created := metav1.ObjectMeta{Name: class.Name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
		return []client.Object{&schedulingv1.PriorityClass{
			ObjectMeta: created, Value: class.Value, PreemptionPolicy: &class.Preemption,
		}}
	}
	for name, test := range map[string]struct {
		classes []client.Object
		want    time.Duration
	}{
		"a rejected group is retried soon if its PriorityClass was just created": {want: goneDelay},
		"a rejected group is retried soon while its PriorityClass is new": {
			classes: classOfAge(time.Second), want: goneDelay,
		},
		"a rejected group is retried later if its PriorityClass is old": {
			classes: classOfAge(newClassAge), want: refusedDelay,
		},
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
				t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, test.want)
			}
		})
	}
}

// Every tenant can create groups that name a queue. The groups that the queue serves do not wait for them.
func TestTheStatusesOfForeignGroupsAreWrittenLast(t *testing.T) {
	t.Parallel()
	const foreign = 2*maxForeign + 1
	ours := newGroup("ours", 1, newPod(gated))
	objects := []client.Object{ours.Group, ours.Pods[0]}
	ours.Pods[0].Labels = map[string]string{v1beta1.LabelGroupName: "ours", v1beta1.LabelQueue: "lab"}
	for i := range foreign {
		group := newGroup(fmt.Sprintf("foreign-%d", i), 1).Group
		group.Namespace = "elsewhere"
		objects = append(objects, group)
	}
	var order []string
	c := interceptor.NewClient(newTestClient(t, objects...).(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			order = append(order, "release")
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			what := object.GetNamespace()
			if what == "" {
				what = "queue"
			}
			order = append(order, what)
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
	r := &reconciler{
		client: c, engine: &brokenEngine{}, events: events.NewFakeRecorder(10), clock: testclock.NewFakePassiveClock(now),
	}
	lab := reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}}
	result, err := r.Reconcile(t.Context(), lab)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"release", "team", "queue"}, slices.Repeat([]string{"elsewhere"}, maxForeign)...)
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	if result.RequeueAfter != cacheDelay {
		t.Errorf("the queue is requeued after %s, want %s", result.RequeueAfter, cacheDelay)
	}
	for range 2 { // the other statuses follow
		if _, err := r.Reconcile(t.Context(), lab); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(order) - len(want); got < foreign-maxForeign {
		t.Errorf("%d other statuses were written, want at least %d", got, foreign-maxForeign)
	}
}

// Changes of conditions and deletions of pods are logged. A reconcile without changes logs nothing.
func TestLog(t *testing.T) {
	t.Parallel()
	const needed = 2
	group := newGroup("training", needed).Group
	c := newTestClient(t, group)
	r := &reconciler{
		client: c, engine: &brokenEngine{}, events: events.NewFakeRecorder(10), clock: testclock.NewFakePassiveClock(now),
	}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	reconcileLab := func() {
		t.Helper()
		if _, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}}); err != nil {
			t.Fatal(err)
		}
	}
	reconcileLab()
	reconcileLab()
	for _, name := range []string{"training-0", "training-1"} {
		pod := newPod(running, func(pod *corev1.Pod) {
			pod.Namespace, pod.Name, pod.Labels = "team", name, map[string]string{
				v1beta1.LabelGroupName: "training", v1beta1.LabelQueue: "lab",
			}
		})
		if err := c.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
		reconcileLab()
	}
	var queue v1beta1.Queue
	if err := c.Get(ctx, client.ObjectKey{Name: "lab"}, &queue); err != nil {
		t.Fatal(err)
	}
	queue.Spec.Closed, queue.Spec.MaxDuration = true, new(v1beta1.Duration("30m"))
	if err := c.Update(ctx, &queue); err != nil {
		t.Fatal(err)
	}
	reconcileLab()
	want := []string{
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="Admitted" "status"="True" "reason"="Admitted"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="Active" "status"="True" "reason"="Open"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="FairShareHonoured" "status"="False" "reason"="NotSupportedByEngine"`,
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="GroupScheduled" "status"="True" "reason"="Scheduled"`,
		`"level"=0 "msg"="MaxDuration" "pod"={"name"="training-0" "namespace"="team"} "maxDuration"="30m"`,
		`"level"=0 "msg"="MaxDuration" "pod"={"name"="training-1" "namespace"="team"} "maxDuration"="30m"`,
		`"level"=0 "msg"="ConditionChanged" "podGroup"={"name"="training" "namespace"="team"} "condition"="Admitted" "status"="False" "reason"="QueueClosed"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="Active" "status"="False" "reason"="QueueClosed"`,
		`"level"=0 "msg"="ConditionChanged" "condition"="ClosedHonoured" "status"="False" "reason"="NotSupportedByEngine"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
}

// Pods of a deleted group count for their queue until they end, even if a group of the same name exists in another
// queue now.
func TestPodsWhoseGroupIsGoneAreOrphans(t *testing.T) {
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
		pod("team", "released", "moved", running, released), pod("team", "of-another-queue", "moved", running),
		pod("team", "left", "gone", running), pod("team", "ended", "gone", succeeded), pod("team", "waits", "gone"),
		pod("team", "not-bound", "gone", released),
		pod("team", "member", "there", running), pod("elsewhere", "not-selected", "gone", running))}
	for queue, want := range map[string][]string{"lab": {"left", "not-bound", "released"}, "other": nil} {
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
