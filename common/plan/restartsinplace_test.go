package plan_test

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// Restarts in place are added to the status once, however often they are read.
func TestRestartsInPlaceInTheStatus(t *testing.T) {
	t.Parallel()
	// counts returns a job of two workers that has run for an hour, with the given restarts in place in its status.
	counts := func(recorded *batchv1beta1.RestartsInPlace) *jobBuilder {
		j := job(role("worker", 2)).CountingRestarts().Saw(time.Hour, runningPods()...)
		j.Status.RestartsInPlace = recorded
		return j
	}
	killed := func(rank int32) batchv1beta1.RestartInPlace {
		return batchv1beta1.RestartInPlace{Replica: "job-worker-1", Rank: &rank, Signal: "SIGKILL", Time: ago(time.Minute)}
	}
	counted := func(n int32, ranks ...int32) view.Reading {
		r := view.Reading{Restarts: n}
		for _, rank := range ranks {
			r.LastRestarts = append(r.LastRestarts, killed(rank))
		}
		return r
	}
	leader := func(r view.Reading) view.Observation {
		return reading(readings{"job-worker-0": r}, runningPods()...)
	}
	recorded := func(count, attemptCount int32, pod types.UID, ranks ...int32) *batchv1beta1.RestartsInPlace {
		return &batchv1beta1.RestartsInPlace{
			Count: count, AttemptCount: attemptCount, PodUID: runningPods()[0].UID + pod,
			Last: counted(count, ranks...).LastRestarts,
		}
	}
	const former = "-former"
	due := func(after time.Duration, seen view.Observation) view.Observation {
		seen.ProgressDue = now.Add(after)
		return seen
	}
	plain := counts(nil)
	plain.Spec.RestartsInPlace = false
	deleted := deletedJob(counts(nil))
	for name, tc := range map[string]struct {
		job   *jobBuilder
		seen  view.Observation
		want  *batchv1beta1.RestartsInPlace
		added int32
		// requeueIn is the time until the job is requeued for restarts that wait. 0 means that none wait.
		requeueIn time.Duration
		// event is the message of the event about restarts in place. Empty means that there is no event.
		event string
	}{
		"without restarts, the status has none": {job: counts(nil), seen: leader(counted(0))},
		"the first restart is added": {
			job: counts(nil), seen: leader(counted(1, 3)), want: recorded(1, 1, "", 3), added: 1,
			event: "restarted the processes in place: rank 3 on job-worker-1 was terminated by SIGKILL",
		},
		"several restarts have one event": {
			job: counts(nil), seen: leader(counted(5, 5, 4, 3)), want: recorded(5, 5, "", 5, 4, 3), added: 5,
			event: "restarted the processes in place 5 times, the last time because rank 5 on job-worker-1 was terminated by " +
				"SIGKILL",
		},
		"restarts that are recorded are not added again": {
			job: counts(recorded(2, 2, "", 4, 3)), seen: leader(counted(2, 4, 3)), want: recorded(2, 2, "", 4, 3),
		},
		"another restart of the same pod comes first": {
			job: counts(recorded(2, 2, "", 4, 3)), seen: leader(counted(3, 5, 4, 3)), want: recorded(3, 3, "", 5, 4, 3),
			added: 1,
			event: "restarted the processes in place: rank 5 on job-worker-1 was terminated by SIGKILL",
		},
		"a new pod counts from zero, and its restarts are added": {
			job: counts(recorded(7, 2, former, 4, 3)), seen: leader(counted(1, 9)), want: recorded(8, 1, "", 9, 4, 3), added: 1,
			event: "restarted the processes in place: rank 9 on job-worker-1 was terminated by SIGKILL",
		},
		"a new pod without restarts changes nothing": {
			job: counts(recorded(7, 2, former, 4, 3)), seen: leader(counted(0)), want: recorded(7, 2, former, 4, 3),
		},
		"a pod that counts fewer than before changes nothing": {
			job: counts(recorded(7, 2, "", 4, 3)), seen: leader(counted(1, 9)), want: recorded(7, 2, "", 4, 3),
		},
		"the number has a limit": {
			job:  counts(&batchv1beta1.RestartsInPlace{Count: math.MaxInt32 - 1, PodUID: "another"}),
			seen: leader(counted(5)), want: recorded(math.MaxInt32, 5, ""), added: 5,
			event: "restarted the processes in place 5 times",
		},
		"only the pod of the leader counts": {
			job: counts(nil), seen: reading(readings{"job-worker-1": counted(1, 3)}, runningPods()...),
		},
		"a pod of another attempt is ignored": {
			job: counts(nil).Saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1))),
			seen: reading(readings{"job-worker-0": counted(1, 3)}, pod("job-worker-0", running),
				pod("job-worker-1", running, again(1))),
		},
		"a pod that could not be read changes nothing":          {job: counts(nil), seen: seeing(runningPods()...)},
		"a job whose restarts are not counted ignores readings": {job: plain, seen: leader(counted(1, 3))},
		"a job that is being deleted ignores readings":          {job: deleted, seen: leader(counted(1, 3))},
		"restarts wait until the next write is due": {
			job: counts(nil), seen: due(9*time.Second, leader(counted(1, 3))), requeueIn: 9 * time.Second,
		},
		"a restart of all replicas records the restarts in place although no write is due": {
			job: counts(nil),
			seen: due(9*time.Second, reading(readings{"job-worker-0": counted(1, 3)}, pod("job-worker-0", running),
				pod("job-worker-1", exited(1)))),
			want: recorded(1, 1, "", 3), added: 1,
			event: "restarted the processes in place: rank 3 on job-worker-1 was terminated by SIGKILL",
		},
		"a failure of the leader records the restarts in place that its pod has counted": {
			job: counts(nil),
			seen: due(9*time.Second, reading(readings{"job-worker-0": counted(1, 3)}, pod("job-worker-0", exited(1)),
				pod("job-worker-1", running))),
			want: recorded(1, 1, "", 3), added: 1,
			event: "restarted the processes in place: rank 3 on job-worker-1 was terminated by SIGKILL",
		},
		"the success of the leader records the restarts in place": {
			job: counts(nil),
			seen: due(9*time.Second, reading(readings{"job-worker-0": counted(1, 3)}, pod("job-worker-0", exited(0)),
				pod("job-worker-1", running))),
			want: recorded(1, 1, "", 3), added: 1,
			event: "restarted the processes in place: rank 3 on job-worker-1 was terminated by SIGKILL",
		},
		"a pause records the restarts in place although no write is due": {
			job: counts(nil).Paused(true), seen: due(9*time.Second, leader(counted(1, 3))),
			want: recorded(1, 1, "", 3), added: 1,
			event: "restarted the processes in place: rank 3 on job-worker-1 was terminated by SIGKILL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.DecideAt(now, tc.seen)
			diff(t, "restarts in place", tc.want, d.Status.RestartsInPlace)
			diff(t, "number of added restarts", tc.added, d.AddedInPlace)
			if tc.requeueIn > 0 {
				diff(t, "requeue delay", tc.requeueIn, summarize(d).RequeueIn)
			}
			message := ""
			for _, e := range d.Events {
				if e.Reason == batchv1beta1.EventRestartedInPlace {
					message = e.Message
					diff(t, "type of the event", corev1.EventTypeWarning, e.Type)
				}
			}
			diff(t, "message of the event", tc.event, message)
			tc.job.Status = d.Status
			again := tc.job.DecideAt(now, tc.seen)
			diff(t, "number of restarts that are added again", int32(0), again.AddedInPlace)
		})
	}
}

// The supervisor of a job is read at the same intervals as its progress would be, and an unchanged number writes no
// status.
func TestTheNumberOfRestartsInPlaceIsReadAgain(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).CountingRestarts().Saw(time.Hour, runningPods()...)
	d := j.DecideAt(now, seeing(runningPods()...))
	diff(t, "requeue delay", view.ProgressInterval, summarize(d).RequeueIn)
	diff(t, "whether the status is written", false, plan.ChangesStatus(j.Job, d))
}
