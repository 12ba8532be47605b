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
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

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

// refuse returns a client that fails to create some objects. The map has the error for each of these objects, by
// name.
func refuse(c client.Client, problems map[string]error) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
		) error {
			if err := problems[object.GetName()]; err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
	})
}

// A group is admitted only if the engine has its group. A problem with one group does not block others.
func TestGroupsThatTheEngineLacksAreNotAdmitted(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	names := []string{"fine", "name-conflict", "earlier", "unknown"}
	for _, name := range names {
		objects = append(objects, newGroup(name, 1).Group)
	}
	earlier := &schedulingv1beta1.PodGroup{ObjectMeta: engineMeta(newGroup("earlier", 1).Group)}
	earlier.OwnerReferences[0].UID = "old"
	earlier.DeletionTimestamp = new(metav1.NewTime(now))
	earlier.Finalizers = []string{"scheduling.k8s.io/podgroup-protection"}
	conflict := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "name-conflict"}}
	later := errors.New("the API server is down")
	problems := map[string]error{"unknown": later}
	c := newTestClient(t, append(objects, earlier, conflict)...)
	r := newTestReconciler(refuse(c, problems), native{})
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
		"fine": `Admitted: Queue "lab" takes the group`,
		"name-conflict": "EngineNotReady: the PodGroup needs podgroup name-conflict of scheduling.k8s.io, but one exists " +
			"that is not the PodGroup's: delete it or rename the PodGroup",
		"earlier": "EarlierGroup: some pods of an earlier PodGroup earlier have not ended, and kube-scheduler keeps that " +
			"group until then",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected conditions Admitted (-want +got):\n%s", diff)
	}
	delete(problems, "unknown")
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != goneDelay {
		t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, goneDelay)
	}
	withoutFinalizer := earlier.DeepCopy()
	withoutFinalizer.Finalizers = nil
	if err := c.Patch(t.Context(), withoutFinalizer, client.MergeFrom(earlier)); err != nil {
		t.Fatal(err)
	}
	r.clock = testclock.NewFakePassiveClock(now.Add(newClassAge))
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != refusedDelay {
		t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, refusedDelay)
	}
}

// The API server rejects a group whose PriorityClass it has not seen yet. So an early retry helps while the class is
// new.
func TestRejectedGroupsAreRetried(t *testing.T) {
	t.Parallel()
	class := native{}.priorityClass(newQueue(nil), newGroup("training", 1).Group)
	classOfAge := func(age time.Duration) []client.Object {
		created := metav1.ObjectMeta{Name: class.Name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
		return []client.Object{&schedulingv1.PriorityClass{
			ObjectMeta: created, Value: class.Value, PreemptionPolicy: &class.Preemption,
		}}
	}
	for name, test := range map[string]struct {
		classes []client.Object
		refused string // the name of the object that the API server rejects
		want    time.Duration
	}{
		"a rejected group is retried soon if its PriorityClass was just created": {refused: "training", want: goneDelay},
		"a rejected group is retried soon while its PriorityClass is new": {
			classes: classOfAge(time.Second), refused: "training", want: goneDelay,
		},
		"a rejected group is retried later if its PriorityClass is old": {
			classes: classOfAge(newClassAge), refused: "training", want: refusedDelay,
		},
		"a group whose PriorityClass is rejected is retried later": {refused: class.Name, want: refusedDelay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noClass := errors.New("no PriorityClass was found")
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "training", noClass)
			c := newTestClient(t, append(test.classes, newGroup("training", 1).Group)...)
			r := newTestReconciler(refuse(c, map[string]error{test.refused: forbidden}), native{})
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}})
			if err != nil || result.RequeueAfter != test.want {
				t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, test.want)
			}
		})
	}
}

// The delay before a retry begins after the writes, so that many slow writes do not use up the delay.
func TestADelayBeginsAfterTheWrites(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(now)
	c := interceptor.NewClient(newTestClient(t, newGroup("training", 1).Group).(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			clock.Step(time.Minute)
			return apierrors.NewForbidden(schema.GroupResource{}, "any", errors.New("not now"))
		},
	})
	r := newTestReconciler(c, native{})
	r.clock = clock
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "lab"}})
	if err != nil || result.RequeueAfter != refusedDelay {
		t.Errorf("the queue is requeued after %s (%v), want %s", result.RequeueAfter, err, refusedDelay)
	}
}

// Any tenant can create groups that name a queue, and pods that look bound. If the queue does not select such a
// group, the controller must not read its objects in the engine.
func TestObjectsOfTheEngineAreReadOnlyForGroupsThatCanBeAdmitted(t *testing.T) {
	t.Parallel()
	foreign := newGroup("foreign", 1, newPod(grouped, running))
	foreign.Group.Namespace, foreign.Pods[0].Namespace = "elsewhere", "elsewhere"
	foreign.Pods[0].Labels[v1beta1.LabelGroupName] = "foreign"
	for name, tc := range map[string]struct {
		closed bool
		want   []string
	}{
		"groups in namespaces that the queue does not select are not read": {want: []string{"ours", "t9k-native-10"}},
		"no group of a closed queue is read":                               {closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			base := newTestClient(t, newGroup("ours", 1).Group, foreign.Group.DeepCopy(), foreign.Pods[0].DeepCopy())
			c := interceptor.NewClient(base.(client.WithWatch), interceptor.Funcs{Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption,
			) error {
				switch into.(type) {
				case *schedulingv1beta1.PodGroup, *schedulingv1.PriorityClass:
					got = append(got, key.Name)
				}
				return c.Get(ctx, key, into, options...)
			}})
			r := newTestReconciler(c, native{})
			view, err := r.observe(t.Context(), "lab")
			if err != nil {
				t.Fatal(err)
			}
			view.Queue.Spec.Closed = tc.closed
			if err := r.observeEngine(t.Context(), &view); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected reads (-want +got):\n%s", diff)
			}
		})
	}
}

// Any tenant can create groups that name a queue. The groups that the queue selects must not wait for the others.
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
	r := newTestReconciler(c, native{})
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
	for range 2 { // two more reconciles write the other statuses
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
	r := newTestReconciler(c, native{})
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
	r := newTestReconciler(newTestClient(t, newGroup("there", 1).Group, other, moved,
		pod("team", "released", "moved", running, released), pod("team", "of-another-queue", "moved", running),
		pod("team", "left", "gone", running), pod("team", "ended", "gone", succeeded), pod("team", "waits", "gone"),
		pod("team", "not-bound", "gone", released),
		pod("team", "member", "there", running), pod("elsewhere", "not-selected", "gone", running)), native{})
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
