package plan

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

func TestPlanTensorBoard(t *testing.T) {
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
		view     TensorBoardView
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
			image: "tb", before: marked, view: TensorBoardView{Held: HeldChange{"Create", now.Add(CacheDelay)}}, want: marked, wantWakeIn: CacheDelay,
		},
		"a controller that does not know yet which there are": {
			image: "tb", view: TensorBoardView{Unknown: true}, want: marked, wantWakeIn: CacheDelay,
		},
		"a controller that has started and does not know yet which there are": {
			image: "tb", before: reported(unchanged), view: TensorBoardView{Unknown: true}, want: reported(unchanged), wantWakeIn: CacheDelay,
		},
		"one that is there and of which its controller has said nothing": {
			image: "tb", before: marked, view: TensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"one that starts": {
			image: "tb", before: reported(unchanged),
			view: TensorBoardView{Object: board("tb", withReady(metav1.ConditionFalse, "Unschedulable", "0/3 nodes"))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Unschedulable", "0/3 nodes" }),
		},
		"one that serves": {
			image: "tb", before: reported(unchanged),
			view: TensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Ready, s.Reason = true, "Serving" }),
		},
		"one that cannot run": {
			image: "tb", before: reported(unchanged),
			view: TensorBoardView{Object: board("tb", failed, withReady(metav1.ConditionFalse, "ClaimExclusive", "claim logs"))},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Type = "ClaimExclusive", "claim logs", "Warning"
			}),
			wantEvent: "Warning ClaimExclusive TensorBoard: claim logs",
		},
		"one that was suspended is left so": {
			image: "tb", before: reported(unchanged), view: TensorBoardView{Object: board("tb", suspended)}, want: reported(unchanged),
		},
		"one that the job wants otherwise": {
			image: "tb:2", before: reported(unchanged), view: TensorBoardView{Object: board("tb")}, want: reported(updated), wantChange: "Update",
		},
		"one that the job wants otherwise, though it was created just now": {
			image: "tb:2", before: reported(unchanged), view: TensorBoardView{Object: board("tb"), Held: HeldChange{"Create", now.Add(time.Second)}},
			want: reported(updated), wantChange: "Update",
		},
		"one that was changed keeps saying so": {
			image: "tb:2", before: reported(updated), view: TensorBoardView{Object: board("tb:2")}, want: reported(updated),
		},
		"one that could not be changed": {
			image: "tb:2", before: reported(func(s *batchv1beta1.DependentStatus) {
				s.Reason, s.Note, s.Action, s.Type = "UpdateFailed", "no", "Update", "Warning"
			}),
			view: TensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", "")), Held: HeldChange{"Update", now.Add(time.Second)}},
			want: reported(func(s *batchv1beta1.DependentStatus) {
				s.Ready, s.Reason, s.Note, s.Action, s.Type = true, "UpdateFailed", "no", "Update", "Warning"
			}),
			wantWakeIn: time.Second,
		},
		"one that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: TensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Reason, s.Note = "Deleted", "it is being deleted" }),
		},
		"one that somebody deleted": {
			image: "tb", before: reported(unchanged), want: marked, wantChange: "Create",
		},
		"another one of the job in its place": {
			image: "tb", before: reported(func(s *batchv1beta1.DependentStatus) { s.Dependent.UID, s.Action = "former", "Update" }),
			view: TensorBoardView{Object: board("tb")}, want: reported(unchanged),
		},
		"somebody else's of the name": {
			image: "tb", view: TensorBoardView{Object: board("tb", foreignBoard)}, want: warning("", "NameConflict", taken),
			wantEvent: "Warning NameConflict TensorBoard: " + taken, wantWakeIn: retry,
		},
		"somebody else's of the name, of which it was told": {
			image: "tb", before: warning("", "NameConflict", taken), view: TensorBoardView{Object: board("tb", foreignBoard)},
			want: warning("", "NameConflict", taken), wantWakeIn: retry,
		},
		"one that was refused, before it may be tried again": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"), view: TensorBoardView{Held: HeldChange{"Create", now.Add(time.Second)}},
			want: warning("Create", "CreateFailed", "quota"), wantWakeIn: time.Second,
		},
		"one that was refused, tried again, stays to be read until it is there": {
			image: "tb", before: warning("Create", "CreateFailed", "quota"),
			want: warning("Create", "CreateFailed", "quota"), wantChange: "Create",
		},
		"TensorBoards that cannot be read": {
			image: "tb", before: reported(unchanged), view: TensorBoardView{Problem: failing}, want: warning("Create", "ReadFailed", "forbidden"),
			wantEvent: "Warning ReadFailed TensorBoard: forbidden", wantWakeIn: retry,
		},
		"one of a job that is being deleted": {
			image: "tb:2", before: reported(unchanged), view: TensorBoardView{Object: board("tb")}, deleting: true, want: reported(unchanged),
		},
		"a finished job that has never had one": {
			image: "tb", finished: true,
		},
		"one of a finished job is only looked at": {
			image: "tb:2", before: reported(unchanged),
			view:     TensorBoardView{Object: board("tb", withReady(metav1.ConditionTrue, "Serving", ""))},
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
			image: "tb", before: warning("Create", "NameConflict", taken), view: TensorBoardView{Object: board("tb", foreignBoard)},
			finished: true, want: warning("Create", "NameConflict", taken),
		},
		"TensorBoards that cannot be read, and a finished job, which does not wait for it": {
			image: "tb", before: reported(unchanged), view: TensorBoardView{Problem: failing}, finished: true,
			want: warning("Create", "ReadFailed", "forbidden"), wantEvent: "Warning ReadFailed TensorBoard: forbidden",
		},
		"one that the job no longer wants": {
			before: reported(unchanged), view: TensorBoardView{Object: board("tb")}, wantChange: "Delete",
			want: reported(func(s *batchv1beta1.DependentStatus) { s.Action = "Delete" }),
		},
		"one that the job no longer wants, before it may be tried again": {
			before: reported(unchanged), view: TensorBoardView{Object: board("tb"), Held: HeldChange{"Delete", now.Add(time.Second)}},
			want: reported(unchanged), wantWakeIn: time.Second,
		},
		"one that the job no longer wants and that is being deleted": {
			before: reported(unchanged), view: TensorBoardView{Object: board("tb", deletingBoard)},
			want: reported(unchanged), wantWakeIn: retry,
		},
		"one that the job no longer wants and that is gone": {
			before: reported(unchanged),
		},
		"somebody else's, which the job no longer wants": {
			before: warning("Create", "NameConflict", taken), view: TensorBoardView{Object: board("tb", foreignBoard)},
		},
		"one that the job no longer wants, when the API server does not answer": {
			before: reported(unchanged), view: TensorBoardView{Unknown: true}, want: reported(unchanged), wantWakeIn: CacheDelay,
		},
		"one that the job no longer wants and that cannot be read": {
			before: reported(unchanged), view: TensorBoardView{Problem: failing}, want: warning("Create", "ReadFailed", "forbidden"),
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
			s := &steps{view: view{job: j.Job, seen: Observation{TensorBoard: tc.view}, now: now}}
			s.planTensorBoard()
			d := s.Decision
			diff(t, "status", tc.want, d.TensorBoard.Status)
			diff(t, "change", tc.wantChange, d.TensorBoard.Change)
			var told string
			for _, e := range d.Events {
				told = e.Type + " " + e.Reason + " " + e.Message
			}
			diff(t, "event", tc.wantEvent, told)
			diff(t, "time until it wakes", tc.wantWakeIn, summarize(d).WakeIn)
			diff(t, "status before, which is only read", tc.before, j.TensorBoardStatus)
			if again := Decide(j.Job, Observation{Pods: map[string]*corev1.Pod{}, TensorBoard: tc.view}, now); again.TensorBoard.Change != d.TensorBoard.Change {
				t.Errorf("the plan of the whole job is to %q it", again.TensorBoard.Change)
			}
		})
	}
}
