package tensorboard_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// tensorBoardView is the part of a tensorboard.Seen that does not come from the job.
type tensorBoardView struct {
	Object  *tensorboardv1beta1.TensorBoard
	Unknown bool
	Problem *report.RefusedError
	Delayed delayedChange
}

func TestDecideAboutATensorBoard(t *testing.T) {
	t.Parallel()
	const retry = time.Minute
	marked := &batchv1beta1.DependentStatus{Name: "tensorboard", Reason: "Creating", Action: "Create", Type: "Normal"}
	taken := "the job needs tensorboard job, but one exists that is not the job's: delete it or rename the job"
	failing := &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")}
	updated := func(s *batchv1beta1.DependentStatus) { s.Action = "Update" }
	for name, tc := range map[string]struct {
		// image is the image in the spec of the job. Empty means that the job needs no TensorBoard.
		image    string
		before   *batchv1beta1.DependentStatus
		view     tensorBoardView
		finished bool
		deleting bool

		want          *batchv1beta1.DependentStatus
		wantChange    string
		wantEvent     string
		wantRequeueIn time.Duration
	}{
		"a job without a TensorBoard has no status": {},
		"a job with a TensorBoard creates it": {
			image: "tb", want: marked, wantChange: "Create",
		},
		"a creation continues after the controller was stopped": {
			image: "tb", before: marked, want: marked, wantChange: "Create",
		},
		"a creation is not repeated while the cache is stale": {
			image: "tb", before: marked, view: tensorBoardView{Delayed: delayedChange{"Create", now.Add(view.CacheDelay)}},
			want: marked, wantRequeueIn: view.CacheDelay,
		},
		"a job waits while TensorBoards cannot be read yet": {
			image: "tb", view: tensorBoardView{Unknown: true}, want: marked, wantRequeueIn: view.CacheDelay,
		},
		"the status is kept while TensorBoards cannot be read yet": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged),
			wantRequeueIn: view.CacheDelay,
		},
		"a TensorBoard without a status is reported as Pending": {
			image: "tb", before: marked, view: tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"the reason of a TensorBoard that starts is reported": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", withReady(metav1.ConditionFalse, "Unschedulable", "0/3 nodes"))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Unschedulable", "0/3 nodes" }),
		},
		"a TensorBoard that serves is reported as ready": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"a TensorBoard that cannot run is a warning": {
			image: "tb", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb", failed, withReady(metav1.ConditionFalse, "ClaimExclusive", "claim logs"))},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Type = "ClaimExclusive", "claim logs", "Warning"
			}),
			wantEvent: "Warning ClaimExclusive TensorBoard: claim logs",
		},
		"a suspended TensorBoard stays suspended": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Object: board("tb", suspended)},
			want: reported(unchanged),
		},
		"a TensorBoard with another spec is updated": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, want: reported(updated),
			wantChange: "Update",
		},
		"a delayed creation does not delay an update": {
			image: "tb:2", before: reported(unchanged),
			view: tensorBoardView{Object: board("tb"), Delayed: delayedChange{"Create", now.Add(time.Second)}},
			want: reported(updated), wantChange: "Update",
		},
		"the action Update is kept after the update": {
			image: "tb:2", before: reported(updated), view: tensorBoardView{Object: board("tb:2")}, want: reported(updated),
		},
		"a failed update is reported until it succeeds": {
			image: "tb:2", before: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Action, s.Type = "UpdateFailed", "no", "Update", "Warning"
			}),
			view: tensorBoardView{
				Object:  board("tb", withReady(metav1.ConditionTrue, "Serving", "")),
				Delayed: delayedChange{"Update", now.Add(time.Second)},
			},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Ready, s.Reason, s.Note, s.Action, s.Type = true, "UpdateFailed", "no", "Update", "Warning"
			}),
			wantRequeueIn: time.Second,
		},
		"a TensorBoard that is being deleted is reported": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Deleted", "it is being deleted" }),
		},
		"a deleted TensorBoard is recreated": {
			image: "tb", before: reported(unchanged), want: marked, wantChange: "Create",
		},
		"a recreated TensorBoard has the action Create": {
			image:  "tb",
			before: reported(func(s *batchv1beta1.DependentStatus) { s.Dependent.UID, s.Action = "former", "Update" }),
			view:   tensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"a TensorBoard of another owner is a name conflict": {
			image: "tb", view: tensorBoardView{Object: board("tb", foreignBoard)}, want: warning("", "NameConflict", taken),
			wantEvent: "Warning NameConflict TensorBoard: " + taken, wantRequeueIn: retry,
		},
		"a name conflict is reported once": {
			image: "tb", before: warning("", "NameConflict", taken), view: tensorBoardView{Object: board("tb", foreignBoard)},
			want: warning("", "NameConflict", taken), wantRequeueIn: retry,
		},
		"a rejected creation is not retried while it is delayed": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			view: tensorBoardView{Delayed: delayedChange{"Create", now.Add(time.Second)}},
			want: warning("Create", "CreateFailed", "quota"), wantRequeueIn: time.Second,
		},
		"the status of a rejected creation is kept during the retry": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			want: warning("Create", "CreateFailed", "quota"), wantChange: "Create",
		},
		"a read error is a warning": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Problem: failing},
			want:      warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantRequeueIn: retry,
		},
		"the TensorBoard of a job that is being deleted is not changed": {
			image: "tb:2", before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, deleting: true,
			want: reported(unchanged),
		},
		"a finished job does not create a TensorBoard": {
			image: "tb", finished: true,
		},
		"the TensorBoard of a finished job is reported, but not updated": {
			image: "tb:2", before: reported(unchanged),
			view:     tensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
			finished: true, want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"the deletion of the TensorBoard of a finished job is reported": {
			image: "tb", before: reported(unchanged), finished: true,
			want: &batchv1beta1.DependentStatus{
				Name: "tensorboard", Reason: "Deleted", Action: "Create", Note: "it was deleted after the job had finished",
				Type: "Normal",
			},
		},
		"the status of a finished job is kept while its new TensorBoard is not in the cache": {
			image: "tb", before: marked, finished: true, want: marked,
		},
		"a finished job keeps the status of a name conflict": {
			image: "tb", before: warning("Create", "NameConflict", taken),
			view:     tensorBoardView{Object: board("tb", foreignBoard)},
			finished: true, want: warning("Create", "NameConflict", taken),
		},
		"a finished job does not retry a failed read": {
			image: "tb", before: reported(unchanged), view: tensorBoardView{Problem: failing}, finished: true,
			want: warning("Create", "ReadFailed", "forbidden"), wantEvent: "Warning ReadFailed TensorBoard: forbidden",
		},
		"a TensorBoard that the job no longer needs is deleted": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb")}, wantChange: "Delete",
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Delete" }),
		},
		"a deletion is not retried while it is delayed": {
			before: reported(unchanged),
			view:   tensorBoardView{Object: board("tb"), Delayed: delayedChange{"Delete", now.Add(time.Second)}},
			want:   reported(unchanged), wantRequeueIn: time.Second,
		},
		"the status is kept while the TensorBoard is being deleted": {
			before: reported(unchanged), view: tensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(unchanged), wantRequeueIn: retry,
		},
		"the status is removed after the TensorBoard was deleted": {
			before: reported(unchanged),
		},
		"the TensorBoard of another owner is not deleted": {
			before: warning("Create", "NameConflict", taken), view: tensorBoardView{Object: board("tb", foreignBoard)},
		},
		"a deletion waits while the API server does not respond": {
			before: reported(unchanged), view: tensorBoardView{Unknown: true}, want: reported(unchanged),
			wantRequeueIn: view.CacheDelay,
		},
		"a deletion waits while the TensorBoard cannot be read": {
			before: reported(unchanged), view: tensorBoardView{Problem: failing},
			want:      warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantRequeueIn: retry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 1))
			if tc.finished {
				j.Status.Phase = batchv1beta1.JobPhaseSucceeded
			}
			seen := tensorboard.Seen{Status: tc.before.DeepCopy(), Delayed: tc.view.Delayed}
			seen.Object, seen.Unknown, seen.Problem = tc.view.Object, tc.view.Unknown, tc.view.Problem
			if tc.image != "" {
				seen.Spec = &tensorboardv1beta1.TensorBoardSpec{Image: tc.image}
			}
			j.Deleting, j.DependentRetry = tc.deleting, retry
			d := seen.Decide(&j.Job, now)
			diff(t, "status", tc.want, d.Status)
			diff(t, "change", tc.wantChange, d.Change.Action)
			var event string
			for _, e := range d.Events {
				event = e.Type + " " + e.Reason + " " + e.Message
			}
			diff(t, "event", tc.wantEvent, event)
			requeueIn := time.Duration(0)
			if !d.RequeueAt.IsZero() {
				requeueIn = d.RequeueAt.Sub(now)
			}
			diff(t, "time until the requeue", tc.wantRequeueIn, requeueIn)
			diff(t, "status before the decision, which must not be modified", tc.before, seen.Status)
		})
	}
}

// New actions of the job controller are written immediately. Changes of the state of the TensorBoard can be batched
// with later changes.
func TestTensorBoardStatusMayWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after *batchv1beta1.DependentStatus
		want          bool
	}{
		"no status can wait":                      {want: true},
		"a new status is written immediately":     {after: reported(unchanged)},
		"a removed status is written immediately": {before: reported(unchanged)},
		"readiness can wait": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }), true,
		},
		"the reference of the TensorBoard can wait": {
			reported(func(s *batchv1beta1.DependentStatus) { s.Dependent = nil }), reported(unchanged), true,
		},
		"an update is written immediately": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Update" }), false,
		},
		"a warning is written immediately": {
			reported(unchanged), reported(func(s *batchv1beta1.DependentStatus) { s.Type = "Warning" }), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tensorboard.Decision{Before: tc.before, Status: tc.after}
			diff(t, "StatusMayWait", tc.want, d.StatusMayWait())
		})
	}
}

// An update does not change spec.suspend, which users and the TensorBoard controller set.
func TestCreatedAndUpdatedTensorBoard(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	seen := tensorboard.Seen{Spec: &tensorboardv1beta1.TensorBoardSpec{Image: "tb:2"}}
	want := &tensorboardv1beta1.TensorBoard{ObjectMeta: j.MetaOfOwned(), Spec: *seen.Spec}
	diff(t, "created TensorBoard", view.Change{Action: "Create", Wanted: want}, seen.Decide(&j.Job, now).Change)

	seen.Object, seen.Status = board("tb", suspended), reported(unchanged)
	want = board("tb:2", suspended)
	diff(t, "updated TensorBoard", view.Change{Action: "Update", Seen: seen.Object, Wanted: want},
		seen.Decide(&j.Job, now).Change)
}
