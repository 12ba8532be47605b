package controller

import (
	"errors"
	"testing"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

func TestDecideJoinsTheTensorBoard(t *testing.T) {
	t.Parallel()
	refused := &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")}
	runs := jobtest.Seeing(pod("job-worker-0", running))
	for name, tc := range map[string]struct {
		job         *jobtest.Builder
		pods        view.Observation
		tensorBoard tensorboard.Seen

		wantEvents    []string
		wantRequeueIn time.Duration
		wantChanges   bool
		wantNewStatus bool
		wantDelay     time.Duration
	}{
		"a job without a TensorBoard has no changes": {
			job: oneWorker().Saw(0, pod("job-worker-0", running)), pods: runs, wantDelay: time.Minute,
		},
		"a running job that needs a TensorBoard changes objects": {
			job: oneWorker().Saw(0, pod("job-worker-0", running)), pods: runs,
			tensorBoard: wanted(tensorboard.Seen{}), wantChanges: true, wantNewStatus: true,
		},
		"a starting job that cannot have a TensorBoard emits both events": {
			job: oneWorker(), pods: runs, tensorBoard: wanted(withProblem(refused)),
			wantEvents: []string{"ReadFailed", "Running"}, wantRequeueIn: time.Minute, wantNewStatus: true,
		},
		"the requeue of the job is used if it is earlier": {
			job: oneWorker().Deadline(30).Saw(0, pod("job-worker-0", running)), pods: runs,
			tensorBoard: wanted(withProblem(refused)),
			wantEvents:  []string{"ReadFailed"}, wantRequeueIn: 30 * time.Second, wantNewStatus: true,
		},
		"the requeue of the TensorBoard is used if it is earlier": {
			job: oneWorker().Deadline(3600).Saw(0, pod("job-worker-0", running)), pods: runs,
			tensorBoard: wanted(withProblem(refused)),
			wantEvents:  []string{"ReadFailed"}, wantRequeueIn: time.Minute, wantNewStatus: true,
		},
		"an expired job ignores its TensorBoard": {
			job: oneWorker().TTL(0).Saw(0, pod("job-worker-0", exited(0))), pods: runs,
			tensorBoard: wanted(tensorboard.Seen{}), wantDelay: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.job.DependentRetry = time.Minute
			d := decideAll(tc.job.Job, observation{Observation: tc.pods, tensorBoard: tc.tensorBoard}, now)
			var told []string
			for _, e := range d.Events {
				told = append(told, e.Reason)
			}
			requeueIn := time.Duration(0)
			if !d.RequeueAt.IsZero() {
				requeueIn = d.RequeueAt.Sub(now)
			}
			diff(t, "events", tc.wantEvents, told)
			diff(t, "time until the requeue", tc.wantRequeueIn, requeueIn)
			diff(t, "whether objects change", tc.wantChanges, d.changesObjects())
			diff(t, "whether the status changes", tc.wantNewStatus, d.changesStatus(tc.job.Job))
			diff(t, "delay of the status", tc.wantDelay, d.statusDelay(tc.job.Job, time.Minute))
		})
	}
}

// oneWorker returns a job with one replica.
func oneWorker() *jobtest.Builder { return jobtest.NewJob(jobtest.Role("worker", 1)) }

// wanted changes an observation so that the job needs a TensorBoard.
func wanted(seen tensorboard.Seen) tensorboard.Seen {
	seen.Spec = &tensorboardv1beta1.TensorBoardSpec{Image: "tb"}
	return seen
}

// withProblem returns the observation of a TensorBoard that cannot be read.
func withProblem(problem *report.RefusedError) tensorboard.Seen {
	var seen tensorboard.Seen
	seen.Problem = problem
	return seen
}
