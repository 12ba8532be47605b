package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
)

// board returns the TensorBoard of the job, with an image.
func board(image string, options ...func(*tensorboardv1beta1.TensorBoard)) *tensorboardv1beta1.TensorBoard {
	t := &tensorboardv1beta1.TensorBoard{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "job", UID: "board-uid", ResourceVersion: "7",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "test/v1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true)}},
		},
		Spec: tensorboardv1beta1.TensorBoardSpec{Image: image},
	}
	for _, option := range options {
		option(t)
	}
	return t
}

func notOurs(t *tensorboardv1beta1.TensorBoard)     { t.OwnerReferences = nil }
func suspended(t *tensorboardv1beta1.TensorBoard)   { t.Spec.Suspend = true }
func terminating(t *tensorboardv1beta1.TensorBoard) { t.DeletionTimestamp = new(metav1.NewTime(now)) }

func failed(t *tensorboardv1beta1.TensorBoard) { t.Status.Phase = tensorboardv1beta1.TensorBoardFailed }

func isReady(status metav1.ConditionStatus, reason, message string) func(*tensorboardv1beta1.TensorBoard) {
	return func(t *tensorboardv1beta1.TensorBoard) {
		t.Status.Conditions = []tensorboardv1beta1.TensorBoardCondition{
			{Type: tensorboardv1beta1.ConditionIdle, Status: metav1.ConditionUnknown, Reason: tensorboardv1beta1.ReasonNotRunning},
			{Type: tensorboardv1beta1.ConditionReady, Status: status, Reason: reason, Message: message},
		}
	}
}

// reported is the status of a TensorBoard that is there.
func reported(change func(*batchv1beta1.DependentStatus)) *batchv1beta1.DependentStatus {
	status := &batchv1beta1.DependentStatus{
		Name: "tensorboard", Reason: "Pending", Action: "Create", Type: "Normal",
		Dependent: &corev1.ObjectReference{APIVersion: "tensorstack.dev/v1beta1", Kind: "TensorBoard", Namespace: "ns", Name: "job", UID: "board-uid"},
	}
	change(status)
	return status
}

func unchanged(*batchv1beta1.DependentStatus) {}

// warning is the status of a TensorBoard that cannot be had.
func warning(action, reason, note string) *batchv1beta1.DependentStatus {
	return &batchv1beta1.DependentStatus{Name: "tensorboard", Reason: reason, Action: action, Note: note, Type: "Warning"}
}

func TestPlanTensorBoard(t *testing.T) {
	t.Parallel()
	const retry = time.Minute
	marked := &batchv1beta1.DependentStatus{Name: "tensorboard", Reason: "Creating", Action: "Create", Type: "Normal"}
	taken := "the job needs tensorboard job, but one exists that is not the job's: delete it or rename the job"
	failing := &owned.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")}
	updated := func(s *batchv1beta1.DependentStatus) { s.Action = "Update" }
	for name, tc := range map[string]struct {
		// image that the job wants, empty if it wants no TensorBoard.
		image    string
		before   *batchv1beta1.DependentStatus
		view     tensorBoardView
		finished bool
		deleting bool

		want       *batchv1beta1.DependentStatus
		wantChange string
		wantEvent  string
		wantWakeIn time.Duration
	}{
		"a job that wants none": {},
		"a job that wants one": {
			image: "tb", want: marked, wantChange: "Create",
		},
		"one that is about to be created, by a controller that was stopped": {
			image: "tb", before: marked, want: marked, wantChange: "Create",
		},
		"one that was created just now, though the cache does not have it": {
			image: "tb", before: marked, view: tensorBoardView{Held: heldChange{"Create", now.Add(cacheDelay)}}, want: marked, wantWakeIn: cacheDelay,
		},
		"a controller that does not know yet which there are": {
			image: "tb", view: tensorBoardView{Unknown: true}, want: marked, wantWakeIn: cacheDelay,
		},
		"a controller that has started and does not know yet which there are": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged), wantWakeIn: cacheDelay,
		},
		"one that is there and of which its controller has said nothing": {
			image: "tb", before: marked, view: tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"one that starts": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", isReady(metav1.ConditionFalse, "Unschedulable", "0/3 nodes"))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Unschedulable", "0/3 nodes" }),
		},
		"one that serves": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Object: board("tb", isReady(metav1.ConditionTrue, "Serving", ""))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"one that cannot run": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", failed, isReady(metav1.ConditionFalse, "ClaimExclusive", "claim logs"))},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Type = "ClaimExclusive", "claim logs", "Warning"
			}),
			wantEvent: "Warning ClaimExclusive TensorBoard: claim logs",
		},
		"one that was suspended is left so": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Object: board("tb", suspended)}, want: reported(unchanged),
		},
		"one that the job wants otherwise": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, want: reported(updated), wantChange: "Update",
		},
		"one that the job wants otherwise, though it was created just now": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb"), Held: heldChange{"Create", now.Add(time.Second)}},
			want: reported(updated), wantChange: "Update",
		},
		"one that was changed keeps saying so": {
			image: "tb:2", before: reported(updated), view: tensorBoardView{Object: board("tb:2")}, want: reported(updated),
		},
		"one that could not be changed": {
			image: "tb:2", before: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Action, s.Type = "UpdateFailed", "no", "Update", "Warning"
			}),
			view: tensorBoardView{Object: board("tb", isReady(metav1.ConditionTrue, "Serving", "")), Held: heldChange{"Update", now.Add(time.Second)}},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Ready, s.Reason, s.Note, s.Action, s.Type = true, "UpdateFailed", "no", "Update", "Warning"
			}),
			wantWakeIn: time.Second,
		},
		"one that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb", terminating)},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Deleted", "it is being deleted" }),
		},
		"one that somebody deleted": {
			image: "tb", before: reported(unchanged), want: marked, wantChange: "Create",
		},
		"another one of the job in its place": {
			image: "tb", before: reported(func(s *batchv1beta1.DependentStatus) { s.Dependent.UID, s.Action = "former", "Update" }),
			view: tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"somebody else's of the name": {
			image: "tb", view: tensorBoardView{Object: board("tb", notOurs)}, want: warning("", "NameConflict", taken),
			wantEvent: "Warning NameConflict TensorBoard: " + taken, wantWakeIn: retry,
		},
		"somebody else's of the name, of which it was told": {
			image: "tb", before: warning("", "NameConflict", taken), view: tensorBoardView{Object: board("tb", notOurs)},
			want: warning("", "NameConflict", taken), wantWakeIn: retry,
		},
		"one that was refused, before it may be tried again": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"), view: tensorBoardView{Held: heldChange{"Create", now.Add(time.Second)}},
			want: warning("Create", "CreateFailed", "quota"), wantWakeIn: time.Second,
		},
		"one that was refused, tried again, stays to be read until it is there": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			want: warning("Create", "CreateFailed", "quota"), wantChange: "Create",
		},
		"TensorBoards that cannot be read": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Problem: failing}, want: warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantWakeIn: retry,
		},
		"one of a job that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, deleting: true, want: reported(unchanged),
		},
		"a finished job that has never had one": {
			image: "tb", finished: true,
		},
		"one of a finished job is only looked at": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb", isReady(metav1.ConditionTrue, "Serving", ""))},
			finished: true, want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"one of a finished job that somebody deleted": {
			image: "tb", before: reported(unchanged), finished: true,
			want: &batchv1beta1.DependentStatus{
				Name: "tensorboard", Reason: "Deleted", Action: "Create", Note: "it was deleted after the job had finished", Type: "Normal",
			},
		},
		"one of a finished job that was created just now": {
			image: "tb", before: marked, finished: true, want: marked,
		},
		"somebody else's in the place of one of a finished job": {
			image: "tb", before: warning("Create", "NameConflict", taken), view: tensorBoardView{Object: board("tb", notOurs)},
			finished: true, want: warning("Create", "NameConflict", taken),
		},
		"TensorBoards that cannot be read, and a finished job, which does not wait for it": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Problem: failing}, finished: true,
			want: warning("Create", "ReadFailed", "forbidden"), wantEvent: "Warning ReadFailed TensorBoard: forbidden",
		},
		"one that the job no longer wants": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, wantChange: "Delete",
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Delete" }),
		},
		"one that the job no longer wants, before it may be tried again": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb"), Held: heldChange{"Delete", now.Add(time.Second)}},
			want: reported(unchanged), wantWakeIn: time.Second,
		},
		"one that the job no longer wants and that is being deleted": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb", terminating)}, want: reported(unchanged), wantWakeIn: retry,
		},
		"one that the job no longer wants and that is gone": {
			before: reported(unchanged),
		},
		"somebody else's, which the job no longer wants": {
			before: warning("Create", "NameConflict", taken), view: tensorBoardView{Object: board("tb", notOurs)},
		},
		"one that the job no longer wants, when the API server does not answer": {
			before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged), wantWakeIn: cacheDelay,
		},
		"one that the job no longer wants and that cannot be read": {
			before: reported(unchanged), view: tensorBoardView{Problem: failing}, want: warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantWakeIn: retry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1))
			if tc.finished {
				j.Status.Phase = batchv1beta1.JobPhaseSucceeded
			}
			if tc.image != "" {
				j.TensorBoardSpec = &tensorboardv1beta1.TensorBoardSpec{Image: tc.image}
			}
			j.Deleting, j.TensorBoardStatus, j.DependentRetry = tc.deleting, tc.before.DeepCopy(), retry
			p := &planner{job: j.snapshot, seen: observation{TensorBoard: tc.view}, now: now}
			p.planTensorBoard()
			d := p.decision
			diff(t, "status", tc.want, d.TensorBoard.Status)
			diff(t, "change", tc.wantChange, d.TensorBoard.Change)
			var told string
			for _, e := range d.Events {
				told = e.Type + " " + e.Reason + " " + e.Message
			}
			diff(t, "event", tc.wantEvent, told)
			diff(t, "time until it wakes", tc.wantWakeIn, summarize(d).WakeIn)
			diff(t, "status before, which is only read", tc.before, j.TensorBoardStatus)
			if again := plan(j.snapshot, observation{Pods: map[string]*corev1.Pod{}, TensorBoard: tc.view}, now); again.TensorBoard.Change != d.TensorBoard.Change {
				t.Errorf("the plan of the whole job is to %q it", again.TensorBoard.Change)
			}
		})
	}
}

// What the controller does about it is worth a write at once; how it does is not.
func TestOnlyFollowsTensorBoard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after *batchv1beta1.DependentStatus
		want          bool
	}{
		"none":                        {want: true},
		"one is to be":                {after: reported(unchanged)},
		"one is gone":                 {before: reported(unchanged)},
		"it is ready":                 {reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }), true},
		"it is there":                 {reported(func(s *batchv1beta1.DependentStatus) { s.Dependent = nil }), reported(unchanged), true},
		"it is being changed":         {reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Update" }), false},
		"there is something to worry": {reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Type = "Warning" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "answer", tc.want, onlyFollowsTensorBoard(tc.before, tc.after))
		})
	}
}

// Only what the job reports or wants wakes it.
func TestTensorBoardChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*tensorboardv1beta1.TensorBoard)
		want   bool
	}{
		"nothing":                        {func(*tensorboardv1beta1.TensorBoard) {}, false},
		"another condition":              {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[0].Status = metav1.ConditionTrue }, false},
		"when the condition was probed":  {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].LastProbeTime = &metav1.Time{} }, false},
		"the pod":                        {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Pod = &tensorboardv1beta1.PodStatus{} }, false},
		"whether it is ready":            {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Status = metav1.ConditionTrue }, true},
		"why it is not":                  {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Reason = "ImagePull" }, true},
		"what that means":                {func(t *tensorboardv1beta1.TensorBoard) { t.Status.Conditions[1].Message = "no such image" }, true},
		"that something must be changed": {failed, true},
		"its spec":                       {func(t *tensorboardv1beta1.TensorBoard) { t.Generation++ }, true},
		"whose it is":                    {notOurs, true},
		"that it is being deleted":       {terminating, true},
		"another one of the name":        {func(t *tensorboardv1beta1.TensorBoard) { t.UID = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := board("tb", isReady(metav1.ConditionFalse, "Pending", ""))
			after := before.DeepCopy()
			tc.change(after)
			diff(t, "answer", tc.want, tensorBoards().changes().Update(ctrlevent.TypedUpdateEvent[*tensorboardv1beta1.TensorBoard]{ObjectOld: before, ObjectNew: after}))
		})
	}
}

func TestStripTensorBoardKeepsWhatTheEngineReads(t *testing.T) {
	t.Parallel()
	full := board("tb", failed, isReady(metav1.ConditionFalse, "Pending", "starting"))
	full.Annotations = map[string]string{"note": "long"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	full.Status.URL = "http://job-tb"
	full.Status.Conditions[1].LastProbeTime = &metav1.Time{}
	got, err := tensorBoards().transform(full)
	if err != nil {
		t.Fatal(err)
	}
	want := board("tb", failed, isReady(metav1.ConditionFalse, "Pending", "starting"))
	want.Status.Conditions = want.Status.Conditions[1:]
	diff(t, "TensorBoard", want, got)

	type tombstone struct{ key string }
	if got, err := tensorBoards().transform(tombstone{"ns/job"}); err != nil || got != (tombstone{"ns/job"}) {
		t.Errorf("anything else became %v, %v", got, err)
	}
}

// boardJob is a job of which only its name and its TensorBoard matter.
type boardJob struct {
	testJob

	spec        *tensorboardv1beta1.TensorBoardSpec
	tensorBoard *batchv1beta1.DependentStatus
}

var _ framework.TensorBoardJob = &boardJob{}

func (j *boardJob) DeepCopyObject() runtime.Object { c := *j; return &c }

func (j *boardJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec { return j.spec }
func (j *boardJob) TensorBoardStatus() *batchv1beta1.DependentStatus     { return j.tensorBoard }

func (j *boardJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) { j.tensorBoard = status }

// ofBoards is the framework of such jobs.
type ofBoards struct{ framework.Framework[*boardJob] }

func (ofBoards) NewJob() *boardJob { return &boardJob{} }

// boards is an API server that gives one answer to every change of a TensorBoard.
type boards struct {
	dependents

	// patch is the last one of a TensorBoard.
	patch string
}

func (b *boards) Create(_ context.Context, _ client.Object, options ...client.CreateOption) error {
	return b.changed("create", (&client.CreateOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency)
}

func (b *boards) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	data, err := patch.Data(object)
	b.patch = string(data)
	return errors.Join(err, b.changed("patch", (&client.PatchOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency))
}

func (b *boards) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	if asked.Preconditions == nil || *asked.Preconditions.UID != object.GetUID() {
		return errors.New("another one could be deleted")
	}
	return b.changed("delete", asked.DisableReadYourWritesConsistency)
}

func (b *boards) Status() client.SubResourceWriter { return boardStatus{boards: b} }

type boardStatus struct {
	client.SubResourceWriter

	boards *boards
}

func (s boardStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	s.boards.calls = append(s.boards.calls, "status")
	return nil
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
		"it is created":  {change: "Create", wantCalls: []string{"create"}, wantWait: cacheDelay},
		"it is changed":  {change: "Update", wantCalls: []string{"patch"}, wantWait: cacheDelay},
		"it is deleted":  {change: "Delete", wantCalls: []string{"delete"}, wantWait: cacheDelay},
		"it was created": {change: "Create", answer: exists, owner: "job-uid", wantCalls: []string{"create"}, wantWait: time.Minute},
		"there is one of the name": {
			change: "Create", answer: exists, owner: "other", wantCalls: []string{"create", "status"}, wantReason: "NameConflict", wantWait: time.Minute,
		},
		"there is no such kind": {
			change: "Create", answer: noKind, wantCalls: []string{"create", "status"}, wantReason: "NotInstalled", wantWait: time.Minute,
		},
		"there is no such kind any more": {
			change: "Create", answer: apierrors.NewNotFound(resource, "job"),
			wantCalls: []string{"create", "status"}, wantReason: "NotInstalled", wantWait: time.Minute,
		},
		"it is refused": {
			change: "Create", answer: forbidden, wantCalls: []string{"create", "status"}, wantReason: "CreateFailed", wantWait: time.Minute,
		},
		"it is refused as before": {
			change: "Create", answer: forbidden, before: warning("Create", "CreateFailed", "creating tensorboard job: "+forbidden.Error()),
			wantCalls: []string{"create"}, wantReason: "CreateFailed", wantWait: time.Minute,
		},
		"the API server does not answer": {
			change: "Create", answer: apierrors.NewTimeoutError("slow", 1), wantCalls: []string{"create"}, wantWait: dependentDelay,
		},
		"a change is refused": {
			change: "Update", answer: forbidden, wantCalls: []string{"patch", "status"}, wantReason: "UpdateFailed", wantWait: time.Minute,
		},
		"somebody changed it since": {
			change: "Update", answer: apierrors.NewConflict(resource, "job", errors.New("changed")), wantCalls: []string{"patch"}, wantWait: cacheDelay,
		},
		"somebody deleted it since": {
			change: "Update", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"patch"}, wantWait: cacheDelay,
		},
		"a deletion is refused": {
			change: "Delete", answer: forbidden, wantCalls: []string{"delete", "status"}, wantReason: "DeleteFailed", wantWait: time.Minute,
		},
		"somebody else deleted it": {
			change: "Delete", answer: apierrors.NewNotFound(resource, "job"), wantCalls: []string{"delete"}, wantWait: cacheDelay,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &boards{dependents: dependents{answer: tc.answer, owner: tc.owner}}
			told := events.NewFakeRecorder(10)
			r := &Reconciler[*boardJob]{
				client: api, apiReader: api, events: told, framework: ofBoards{},
				gvk:     schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"},
				options: Options{DependentRetry: time.Minute, Memory: &Memory{}, Clock: testingclock.NewFakePassiveClock(now)},
			}
			j := &boardJob{spec: &tensorboardv1beta1.TensorBoardSpec{Image: "tb:2"}, tensorBoard: tc.before}
			j.Namespace, j.Name, j.UID = "ns", "job", "job-uid"
			wait := r.changeTensorBoard(t.Context(), j, tensorBoardDecision{Change: tc.change, Object: board("tb", suspended)})
			diff(t, "wait", tc.wantWait, wait)
			diff(t, "what must wait", heldChange{tc.change, now.Add(tc.wantWait)}, r.options.Memory.heldTensorBoard(client.ObjectKeyFromObject(j)))
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
			diff(t, "number of events", wantEvents, len(told.Events))
		})
	}
}
