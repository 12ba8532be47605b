package dependents_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// Only what the job reports or wants wakes it.
func TestTensorBoardChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*tensorboardv1beta1.TensorBoard)
		want   bool
	}{
		"nothing": {func(*tensorboardv1beta1.TensorBoard) {}, false},
		"another condition": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[0].Status = metav1.ConditionTrue }, false,
		},
		"when the condition was probed": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].LastProbeTime = &metav1.Time{} }, false,
		},
		"the pod": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Pod = &tensorboardv1beta1.PodStatus{} }, false,
		},
		"whether it is ready": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Status = metav1.ConditionTrue }, true,
		},
		"why it is not": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Reason = "ImagePull" }, true,
		},
		"what that means": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Message = "no such image" }, true,
		},
		"that something must be changed": {failed, true},
		"its spec":                       {func(t *tensorboardv1beta1.TensorBoard) { t.Generation++ }, true},
		"whose it is":                    {foreignBoard, true},
		"that it is being deleted":       {deletingBoard, true},
		"another one of the name":        {func(t *tensorboardv1beta1.TensorBoard) { t.UID = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := board("tb", withReady(metav1.ConditionFalse, "Pending", ""))
			after := before.DeepCopy()
			tc.change(after)
			diff(t, "answer", tc.want, dependents.TensorBoardWakes(before, after))
		})
	}
}

func TestStripTensorBoardKeepsWhatTheControllerReads(t *testing.T) {
	t.Parallel()
	full := board("tb", failed, withReady(metav1.ConditionFalse, "Pending", "starting"))
	full.Annotations = map[string]string{"note": "long"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	full.Status.URL = "http://job-tb"
	full.Status.Conditions[1].LastProbeTime = &metav1.Time{}
	got, err := dependents.TransformTensorBoard(full)
	if err != nil {
		t.Fatal(err)
	}
	want := board("tb", failed, withReady(metav1.ConditionFalse, "Pending", "starting"))
	want.Status.Conditions = want.Status.Conditions[1:]
	diff(t, "TensorBoard", want, got)

	type tombstone struct{ key string }
	if got, err := dependents.TransformTensorBoard(tombstone{"ns/job"}); err != nil || got != (tombstone{"ns/job"}) {
		t.Errorf("anything else became %v, %v", got, err)
	}
}

// boards is an API server that gives one answer to every change of a TensorBoard.
type boards struct {
	apiServer

	// patch is the last one of a TensorBoard.
	patch string
}

func (b *boards) Create(_ context.Context, _ client.Object, options ...client.CreateOption) error {
	return b.changed("create", (&client.CreateOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency)
}

func (b *boards) Patch(
	_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	data, err := patch.Data(object)
	b.patch = string(data)
	return errors.Join(err,
		b.changed("patch", (&client.PatchOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency))
}

func (b *boards) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	if asked.Preconditions == nil || *asked.Preconditions.UID != object.GetUID() {
		return errors.New("another one could be deleted")
	}
	return b.changed("delete", asked.DisableReadYourWritesConsistency)
}

// Nothing about a TensorBoard is an error of the reconcile.
func TestChangeTensorBoard(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "tensorstack.dev", Resource: "tensorboards"}
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "tensorstack.dev", Kind: "TensorBoard"}}
	exists := apierrors.NewAlreadyExists(resource, "job")
	forbidden := apierrors.NewForbidden(resource, "job", errors.New("quota"))
	for name, tc := range map[string]struct {
		change string
		answer error
		owner  types.UID
		before *batchv1beta1.DependentStatus

		wantCalls  []string
		wantReason string
		wantWait   time.Duration
	}{
		"it is created": {change: "Create", wantCalls: []string{"create"}, wantWait: plan.CacheDelay},
		"it is changed": {change: "Update", wantCalls: []string{"patch"}, wantWait: plan.CacheDelay},
		"it is deleted": {change: "Delete", wantCalls: []string{"delete"}, wantWait: plan.CacheDelay},
		"it was created": {
			change: "Create", answer: exists, owner: "job-uid", wantCalls: []string{"create"}, wantWait: time.Minute,
		},
		"there is one of the name": {
			change: "Create", answer: exists, owner: "other", wantCalls: []string{"create", "status"},
			wantReason: "NameConflict", wantWait: time.Minute,
		},
		"there is no such kind": {
			change: "Create", answer: noKind, wantCalls: []string{"create", "status"}, wantReason: "NotInstalled",
			wantWait: time.Minute,
		},
		"there is no such kind any more": {
			change: "Create", answer: apierrors.NewNotFound(resource, "job"),
			wantCalls: []string{"create", "status"}, wantReason: "NotInstalled", wantWait: time.Minute,
		},
		"it is refused": {
			change: "Create", answer: forbidden, wantCalls: []string{"create", "status"}, wantReason: "CreateFailed",
			wantWait: time.Minute,
		},
		"it is refused as before": {
			change: "Create", answer: forbidden,
			before:    warning("Create", "CreateFailed", "creating tensorboard job: "+forbidden.Error()),
			wantCalls: []string{"create"}, wantReason: "CreateFailed", wantWait: time.Minute,
		},
		"the API server does not answer": {
			change: "Create", answer: apierrors.NewTimeoutError("slow", 1), wantCalls: []string{"create"},
			wantWait: dependents.RetryDelay,
		},
		"a change is refused": {
			change: "Update", answer: forbidden, wantCalls: []string{"patch", "status"}, wantReason: "UpdateFailed",
			wantWait: time.Minute,
		},
		"somebody changed it since": {
			change: "Update", answer: apierrors.NewConflict(resource, "job", errors.New("changed")),
			wantCalls: []string{"patch"}, wantWait: plan.CacheDelay,
		},
		"somebody deleted it since": {
			change: "Update", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"patch"},
			wantWait: plan.CacheDelay,
		},
		"a deletion is refused": {
			change: "Delete", answer: forbidden, wantCalls: []string{"delete", "status"}, wantReason: "DeleteFailed",
			wantWait: time.Minute,
		},
		"somebody else deleted it": {
			change: "Delete", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"delete"},
			wantWait: plan.CacheDelay,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &boards{apiServer: apiServer{answer: tc.answer, owner: tc.owner}}
			held := &dependents.HeldChanges{}
			tensorBoards := dependents.NewTensorBoards(dependents.Cluster{Client: api, APIReader: api}, held,
				testingclock.NewFakePassiveClock(now), time.Minute)
			j := newOwnerJob()
			j.tensorBoard = tc.before
			told := 0
			writeStatus := func(_ context.Context, status *batchv1beta1.DependentStatus, events []report.Event) error {
				api.calls = append(api.calls, "status")
				j.tensorBoard = status
				told += len(events)
				return nil
			}
			change := changeOf(tc.change, board("tb", suspended), board("tb:2", suspended))
			diff(t, "wait", tc.wantWait, tensorBoards.Apply(t.Context(), j, change, writeStatus))
			wantHeld := heldChange{Action: tc.change, Until: now.Add(tc.wantWait)}
			diff(t, "what must wait", wantHeld, held.Of(client.ObjectKeyFromObject(j)))
			diff(t, "calls", tc.wantCalls, api.calls)
			if tc.change == "Update" {
				diff(t, "patch", `{"metadata":{"resourceVersion":"7"},"spec":{"image":"tb:2"}}`, api.patch)
			}
			reason, wantEvents := "", 0
			if j.tensorBoard != nil {
				reason = j.tensorBoard.Reason
			}
			if tc.wantReason != "" && tc.before == nil {
				wantEvents = 1
			}
			diff(t, "reason in the status", tc.wantReason, reason)
			diff(t, "number of events", wantEvents, told)
		})
	}
}

func TestForgetHeldChanges(t *testing.T) {
	t.Parallel()
	held := &dependents.HeldChanges{}
	api := &boards{}
	tensorBoards := dependents.NewTensorBoards(dependents.Cluster{Client: api, APIReader: api}, held,
		testingclock.NewFakePassiveClock(now), time.Minute)
	j := newOwnerJob()
	tensorBoards.Apply(t.Context(), j, changeOf("Create", nil, board("tb")), nil)
	held.Forget(client.ObjectKeyFromObject(j))
	diff(t, "what must wait of a job that is gone", heldChange{}, held.Of(client.ObjectKeyFromObject(j)))
}
