package dependents_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// tensorBoardView is what is known of the TensorBoard of a job, apart from what the job tells about it.
type tensorBoardView struct {
	Object  *tensorboardv1beta1.TensorBoard
	Unknown bool
	Problem *report.RefusedError
	Held    heldChange
}

func TestDecideAboutATensorBoard(t *testing.T) {
	t.Parallel()
	const retry = time.Minute
	marked := &batchv1beta1.DependentStatus{Name: "tensorboard", Reason: "Creating", Action: "Create", Type: "Normal"}
	taken := "the job needs tensorboard job, but one exists that is not the job's: delete it or rename the job"
	failing := &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")}
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
			image: "tb", before: marked, view: tensorBoardView{Held: heldChange{"Create", now.Add(plan.CacheDelay)}},
			want: marked, wantWakeIn: plan.CacheDelay,
		},
		"a controller that does not know yet which there are": {
			image: "tb", view: tensorBoardView{Unknown: true}, want: marked, wantWakeIn: plan.CacheDelay,
		},
		"a controller that has started and does not know yet which there are": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged),
			wantWakeIn: plan.CacheDelay,
		},
		"one that is there and of which its controller has said nothing": {
			image: "tb", before: marked, view: tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"one that starts": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", withReady(metav1.ConditionFalse, "Unschedulable", "0/3 nodes"))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Unschedulable", "0/3 nodes" }),
		},
		"one that serves": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"one that cannot run": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", failed, withReady(metav1.ConditionFalse, "ClaimExclusive", "claim logs"))},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Type = "ClaimExclusive", "claim logs", "Warning"
			}),
			wantEvent: "Warning ClaimExclusive TensorBoard: claim logs",
		},
		"one that was suspended is left so": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Object: board("tb", suspended)},
			want: reported(unchanged),
		},
		"one that the job wants otherwise": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, want: reported(updated),
			wantChange: "Update",
		},
		"one that the job wants otherwise, though it was created just now": {
			image: "tb:2", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb"), Held: heldChange{"Create", now.Add(time.Second)}},
			want: reported(updated), wantChange: "Update",
		},
		"one that was changed keeps saying so": {
			image: "tb:2", before: reported(updated), view: tensorBoardView{Object: board("tb:2")}, want: reported(updated),
		},
		"one that could not be changed": {
			image: "tb:2", before: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Action, s.Type = "UpdateFailed", "no", "Update", "Warning"
			}),
			view: tensorBoardView{
				Object: board("tb", withReady(metav1.ConditionTrue, "Serving", "")),
				Held:   heldChange{"Update", now.Add(time.Second)},
			},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Ready, s.Reason, s.Note, s.Action, s.Type = true, "UpdateFailed", "no", "Update", "Warning"
			}),
			wantWakeIn: time.Second,
		},
		"one that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Deleted", "it is being deleted" }),
		},
		"one that somebody deleted": {
			image: "tb", before: reported(unchanged), want: marked, wantChange: "Create",
		},
		"another one of the job in its place": {
			image:  "tb",
			before: reported(func(s *batchv1beta1.DependentStatus) { s.Dependent.UID, s.Action = "former", "Update" }),
			view:   tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"somebody else's of the name": {
			image: "tb", view: tensorBoardView{Object: board("tb", foreignBoard)}, want: warning("", "NameConflict", taken),
			wantEvent: "Warning NameConflict TensorBoard: " + taken, wantWakeIn: retry,
		},
		"somebody else's of the name, of which it was told": {
			image: "tb", before: warning("", "NameConflict", taken), view: tensorBoardView{Object: board("tb", foreignBoard)},
			want: warning("", "NameConflict", taken), wantWakeIn: retry,
		},
		"one that was refused, before it may be tried again": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			view: tensorBoardView{Held: heldChange{"Create", now.Add(time.Second)}},
			want: warning("Create", "CreateFailed", "quota"), wantWakeIn: time.Second,
		},
		"one that was refused, tried again, stays to be read until it is there": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			want: warning("Create", "CreateFailed", "quota"), wantChange: "Create",
		},
		"TensorBoards that cannot be read": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Problem: failing},
			want:      warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantWakeIn: retry,
		},
		"one of a job that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, deleting: true,
			want: reported(unchanged),
		},
		"a finished job that has never had one": {
			image: "tb", finished: true,
		},
		"one of a finished job is only looked at": {
			image: "tb:2", before: reported(unchanged),
			view:     tensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
			finished: true, want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"one of a finished job that somebody deleted": {
			image: "tb", before: reported(unchanged), finished: true,
			want: &batchv1beta1.DependentStatus{
				Name: "tensorboard", Reason: "Deleted", Action: "Create", Note: "it was deleted after the job had finished",
				Type: "Normal",
			},
		},
		"one of a finished job that was created just now": {
			image: "tb", before: marked, finished: true, want: marked,
		},
		"somebody else's in the place of one of a finished job": {
			image: "tb", before: warning("Create", "NameConflict", taken),
			view:     tensorBoardView{Object: board("tb", foreignBoard)},
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
			before: reported(unchanged),
			view:   tensorBoardView{Object: board("tb"), Held: heldChange{"Delete", now.Add(time.Second)}},
			want:   reported(unchanged), wantWakeIn: time.Second,
		},
		"one that the job no longer wants and that is being deleted": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(unchanged), wantWakeIn: retry,
		},
		"one that the job no longer wants and that is gone": {
			before: reported(unchanged),
		},
		"somebody else's, which the job no longer wants": {
			before: warning("Create", "NameConflict", taken), view: tensorBoardView{Object: board("tb", foreignBoard)},
		},
		"one that the job no longer wants, when the API server does not answer": {
			before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged),
			wantWakeIn: plan.CacheDelay,
		},
		"one that the job no longer wants and that cannot be read": {
			before: reported(unchanged), view: tensorBoardView{Problem: failing},
			want:      warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantWakeIn: retry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1))
			if tc.finished {
				j.Status.Phase = batchv1beta1.JobPhaseSucceeded
			}
			seen := dependents.TensorBoard{Status: tc.before.DeepCopy(), Held: tc.view.Held}
			seen.Object, seen.Unknown, seen.Problem = tc.view.Object, tc.view.Unknown, tc.view.Problem
			if tc.image != "" {
				seen.Spec = &tensorboardv1beta1.TensorBoardSpec{Image: tc.image}
			}
			j.Deleting, j.DependentRetry = tc.deleting, retry
			d := seen.Decide(&j.Job, now)
			diff(t, "status", tc.want, d.Status)
			diff(t, "change", tc.wantChange, d.Change.Action)
			var told string
			for _, e := range d.Events {
				told = e.Type + " " + e.Reason + " " + e.Message
			}
			diff(t, "event", tc.wantEvent, told)
			wakeIn := time.Duration(0)
			if !d.WakeAt.IsZero() {
				wakeIn = d.WakeAt.Sub(now)
			}
			diff(t, "time until it wakes", tc.wantWakeIn, wakeIn)
			diff(t, "status before, which is only read", tc.before, seen.Status)
		})
	}
}

// What the controller does about it is worth a write at once; how it does is not.
func TestTensorBoardStatusMayWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after *batchv1beta1.DependentStatus
		want          bool
	}{
		"none":         {want: true},
		"one is to be": {after: reported(unchanged)},
		"one is gone":  {before: reported(unchanged)},
		"it is ready": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }), true,
		},
		"it is there": {
			reported(func(s *batchv1beta1.DependentStatus) { s.Dependent = nil }), reported(unchanged), true,
		},
		"it is being changed": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Update" }), false,
		},
		"there is something to worry": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Type = "Warning" }), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dependents.TensorBoardDecision{Before: tc.before, Status: tc.after}
			diff(t, "answer", tc.want, d.StatusMayWait())
		})
	}
}

// The users of a TensorBoard and its own controller decide whether it is suspended.
func TestTensorBoardThatIsWanted(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	seen := dependents.TensorBoard{Spec: &tensorboardv1beta1.TensorBoardSpec{Image: "tb:2"}}
	want := &tensorboardv1beta1.TensorBoard{ObjectMeta: j.MetaOfOwned(), Spec: *seen.Spec}
	diff(t, "TensorBoard that is created", plan.Change{Action: "Create", Wanted: want}, seen.Decide(&j.Job, now).Change)

	seen.Object, seen.Status = board("tb", suspended), reported(unchanged)
	want = board("tb:2", suspended)
	diff(t, "TensorBoard that is updated", plan.Change{Action: "Update", Seen: seen.Object, Wanted: want},
		seen.Decide(&j.Job, now).Change)
}
