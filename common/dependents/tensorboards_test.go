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
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Only changes that matter to the job requeue it.
func TestTensorBoardRequeuesItsJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*tensorboardv1beta1.TensorBoard)
		want   bool
	}{
		"no change does not requeue the job": {func(*tensorboardv1beta1.TensorBoard) {}, false},
		"a change of another condition does not requeue the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[0].Status = metav1.ConditionTrue }, false,
		},
		"a change of the probe time does not requeue the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].LastProbeTime = &metav1.Time{} }, false,
		},
		"a change of the pod does not requeue the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Pod = &tensorboardv1beta1.PodStatus{} }, false,
		},
		"a change of Ready requeues the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Status = metav1.ConditionTrue }, true,
		},
		"a change of the reason of Ready requeues the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Reason = "ImagePull" }, true,
		},
		"a change of the message of Ready requeues the job": {
			func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Message = "no such image" }, true,
		},
		"the phase Failed requeues the job":      {failed, true},
		"a change of the spec requeues the job":  {func(t *tensorboardv1beta1.TensorBoard) { t.Generation++ }, true},
		"a change of the owner requeues the job": {foreignBoard, true},
		"a deletion requeues the job":            {deletingBoard, true},
		"a new TensorBoard requeues the job":     {func(t *tensorboardv1beta1.TensorBoard) { t.UID = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := board("tb", withReady(metav1.ConditionFalse, "Pending", ""))
			after := before.DeepCopy()
			tc.change(after)
			diff(t, "requeue", tc.want, dependents.TensorBoardWakes(before, after))
		})
	}
}

func TestTransformKeepsTheFieldsThatTheControllerReads(t *testing.T) {
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
		t.Errorf("the tombstone became %v, error %v", got, err)
	}
}

// boards is a fake API server that returns the same error for every change of a TensorBoard.
type boards struct {
	apiServer

	// patch is the last patch of a TensorBoard.
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
		return errors.New("the deletion has no precondition")
	}
	return b.changed("delete", asked.DisableReadYourWritesConsistency)
}

// newTensorBoards returns a TensorBoards whose clock always shows now. It retries after a minute.
func newTensorBoards(api client.Client, delayed *dependents.DelayedChanges) *dependents.TensorBoards {
	return dependents.NewTensorBoards(dependents.Cluster{
		Client: api, APIReader: api, Clock: testingclock.NewFakePassiveClock(now), Retry: time.Minute,
	}, delayed)
}

// A problem with a TensorBoard never makes the reconcile of the job fail.
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
		"a TensorBoard is created": {change: "Create", wantCalls: []string{"create"}, wantWait: view.CacheDelay},
		"a TensorBoard is updated": {change: "Update", wantCalls: []string{"patch"}, wantWait: view.CacheDelay},
		"a TensorBoard is deleted": {change: "Delete", wantCalls: []string{"delete"}, wantWait: view.CacheDelay},
		"an existing TensorBoard of the job is ignored": {
			change: "Create", answer: exists, owner: "job-uid", wantCalls: []string{"create"}, wantWait: time.Minute,
		},
		"an existing TensorBoard of another owner is a name conflict": {
			change: "Create", answer: exists, owner: "other", wantCalls: []string{"create", "status"},
			wantReason: "NameConflict", wantWait: time.Minute,
		},
		"an unknown kind is not installed": {
			change: "Create", answer: noKind, wantCalls: []string{"create", "status"}, wantReason: "NotInstalled",
			wantWait: time.Minute,
		},
		"a removed kind is not installed": {
			change: "Create", answer: apierrors.NewNotFound(resource, "job"),
			wantCalls: []string{"create", "status"}, wantReason: "NotInstalled", wantWait: time.Minute,
		},
		"a rejected creation is reported": {
			change: "Create", answer: forbidden, wantCalls: []string{"create", "status"}, wantReason: "CreateFailed",
			wantWait: time.Minute,
		},
		"a creation that is rejected again is not reported again": {
			change: "Create", answer: forbidden,
			before:    warning("Create", "CreateFailed", "creating tensorboard job: "+forbidden.Error()),
			wantCalls: []string{"create"}, wantReason: "CreateFailed", wantWait: time.Minute,
		},
		"a timeout of the API server is retried": {
			change: "Create", answer: apierrors.NewTimeoutError("slow", 1), wantCalls: []string{"create"},
			wantWait: dependents.RetryDelay,
		},
		"a rejected update is reported": {
			change: "Update", answer: forbidden, wantCalls: []string{"patch", "status"}, wantReason: "UpdateFailed",
			wantWait: time.Minute,
		},
		"a conflict of an update is ignored": {
			change: "Update", answer: apierrors.NewConflict(resource, "job", errors.New("changed")),
			wantCalls: []string{"patch"}, wantWait: view.CacheDelay,
		},
		"an update of a deleted TensorBoard is ignored": {
			change: "Update", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"patch"},
			wantWait: view.CacheDelay,
		},
		"a rejected deletion is reported": {
			change: "Delete", answer: forbidden, wantCalls: []string{"delete", "status"}, wantReason: "DeleteFailed",
			wantWait: time.Minute,
		},
		"a deletion of a deleted TensorBoard is ignored": {
			change: "Delete", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"delete"},
			wantWait: view.CacheDelay,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &boards{apiServer: apiServer{answer: tc.answer, owner: tc.owner}}
			delayed := &dependents.DelayedChanges{}
			tensorBoards := newTensorBoards(api, delayed)
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
			wantDelayed := delayedChange{Action: tc.change, Until: now.Add(tc.wantWait)}
			diff(t, "delayed change", wantDelayed, delayed.Of(client.ObjectKeyFromObject(j)))
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
	delayed := &dependents.DelayedChanges{}
	api := &boards{}
	tensorBoards := newTensorBoards(api, delayed)
	j := newOwnerJob()
	tensorBoards.Apply(t.Context(), j, changeOf("Create", nil, board("tb")), nil)
	delayed.Forget(client.ObjectKeyFromObject(j))
	diff(t, "delayed change of a deleted job", delayedChange{}, delayed.Of(client.ObjectKeyFromObject(j)))
}
