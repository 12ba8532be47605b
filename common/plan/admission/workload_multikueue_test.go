package admission_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestPlanJobOfMultiKueue(t *testing.T) {
	t.Parallel()
	unknown := admission.Workload{Queue: "lab"}
	unknown.Unknown = true
	missing := admission.Workload{Queue: "lab"}
	missing.Problem = errNotInstalled
	elsewhere := func() *jobBuilder {
		j := job(role("worker", 2))
		j.Spec.ManagedBy = batchv1beta1.ManagedByMultiKueue
		return j
	}
	// runs returns a job whose copy in the other cluster runs. Its status is the status of the copy.
	runs := func() *jobBuilder {
		j := elsewhere()
		j.Status = ran().Status
		return j
	}
	starts := func() *jobBuilder {
		j := elsewhere()
		j.Status = job(role("worker", 2)).SawIn(withWorkload(workload(admittedFor(2)))).Status
		return j
	}
	// succeeds returns a job with the status of its copy. The leader of the copy has succeeded, and a peer still runs.
	succeeds := func() *jobBuilder {
		j := elsewhere()
		j.Status = ran().GivePeers(time.Minute).
			SawIn(withWorkload(workload(admittedFor(2)), pod("job-worker-0", byWorkload, exited(0)), run()[1])).Status
		return j
	}
	finished := func() *jobBuilder {
		j := elsewhere()
		j.Status = ran().SawIn(withWorkload(workload(admittedFor(2)),
			pod("job-worker-0", byWorkload, exited(0)), pod("job-worker-1", byWorkload, exited(0)))).Status
		return j
	}
	empty := func(j *jobBuilder) *jobBuilder {
		j.Spec.Roles[0].Replicas = 0
		return j
	}
	// without returns the job with a changed status: its copy has no pods, after two restarts and an eviction in the
	// other cluster.
	without := func(j *jobBuilder) *jobBuilder {
		j.Status.StartTime, j.Status.Replicas, j.Status.Evictions, j.Status.BackoffCount = nil, 0, 1, 2
		return j
	}
	since := func(at time.Time) func(*kueuev1beta2.Workload) {
		return func(w *kueuev1beta2.Workload) {
			for i := range w.Status.Conditions {
				w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(at)
			}
		}
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder // nil means a new job
		view view.Admission
		// wantChange is the change of the Workload.
		wantChange string
		// wantReason is the reason in the status that the controller writes. It is empty if the status stays as it is.
		wantReason  string
		wantRetry   bool
		wantStarted bool
	}{
		"a job without a queue of Kueue does nothing": {},
		"a new job creates its workload": {
			view: admission.Workload{Queue: "lab"}, wantChange: "Create", wantReason: "Queued",
		},
		"a new job retries while its workload is not known": {view: unknown, wantReason: "Queued", wantRetry: true},
		"a new job without Kueue reports it":                {view: missing, wantReason: "NotInstalled", wantRetry: true},
		"a paused job deletes its workload": {
			job: elsewhere().Paused(true), view: seenWorkload(workload(admittedFor(2))), wantChange: "Delete",
			wantReason: "Paused",
		},
		"a paused job whose end is not copied yet keeps its workload": {
			job:        elsewhere().Paused(true),
			view:       seenWorkload(workload(admittedFor(2), has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
			wantReason: "Paused",
		},
		"a job without replicas requests nothing": {
			job: empty(elsewhere()), view: admission.Workload{Queue: "lab"}, wantReason: "NoReplicas",
		},
		"the status of a job that is admitted is left to Kueue": {
			job: starts(), view: seenWorkload(workload(admittedFor(2))),
		},
		"a job that runs is reported as ready": {
			job: runs(), view: seenWorkload(workload(admittedFor(2))), wantChange: "Update PodsReady=True Started",
		},
		"a job that is evicted keeps its quota while its copy has pods": {
			job: runs(), view: seenWorkload(workload(admittedFor(2), evicted("Preempted"), since(now))), wantRetry: true,
		},
		"a job that is evicted returns its quota when its copy has no pods": {
			job:  without(runs()),
			view: seenWorkload(workload(admittedFor(2), evicted("Preempted"), since(now))),
			wantChange: "Update Admitted=False NoReservation QuotaReserved=False Pending Requeued=True Preempted " +
				"without admission",
			wantReason: "Queued",
		},
		"a job whose success is recorded ends when it is evicted": {
			job:        succeeds(),
			view:       seenWorkload(workload(admittedFor(2), evicted("Preempted"), since(now.Add(-time.Hour)))),
			wantChange: "Update Finished=True Succeeded", wantReason: "LeaderSucceeded", wantStarted: true,
		},
		"a job that has finished returns its quota": {
			job:        finished(),
			view:       seenWorkload(workload(admittedFor(2), evicted("AdmissionCheck"))),
			wantChange: "Update Finished=True Succeeded",
		},
		"a new job whose workload is finished needs help": {
			view:       seenWorkload(workload(has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
			wantReason: "Queued", wantRetry: true,
		},
		"a job that runs retries while its workload is not known": {job: runs(), view: unknown, wantRetry: true},
		"a job that runs goes on without Kueue":                   {job: runs(), view: missing, wantRetry: true},
		"a job that is evicted returns its quota after some minutes if the other cluster is lost": {
			job: runs(), view: seenWorkload(workload(admittedFor(2), evicted("Preempted"), since(now.Add(-time.Hour)))),
			wantChange: "Update Admitted=False NoReservation QuotaReserved=False Pending Requeued=True Preempted " +
				"without admission",
			wantReason: "Queued",
		},
		"a job whose workload is gone requests another one": {
			job: runs(), view: admission.Workload{Queue: "lab"}, wantChange: "Create", wantReason: "Queued",
		},
		"a job that runs is paused": {
			job: runs().Paused(true), view: seenWorkload(workload(admittedFor(2))), wantChange: "Delete", wantReason: "Paused",
		},
		"a job whose workload is finished waits for its status": {
			job:       runs(),
			view:      seenWorkload(workload(admittedFor(2), has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
			wantRetry: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job
			if j == nil {
				j = elsewhere()
			}
			j.DependentRetry = time.Minute
			d := plan.Decide(j.Job, view.Observation{Admission: tc.view}, now)
			diff(t, "change", tc.wantChange, describeChange(d.Admission))
			diff(t, "requeue", tc.wantRetry, !d.RequeueAt.IsZero())
			discards := j.Status.StartTime != nil && d.Status.StartTime == nil
			diff(t, "live read", tc.wantChange != "" || discards, d.NeedsLiveRead)
			diff(t, "creations", []string(nil), summarize(d).Creates)
			if tc.wantReason == "" {
				diff(t, "status", j.Status, d.Status)
				return
			}
			diff(t, "reason", tc.wantReason, d.Status.Reason)
			diff(t, "whether the job has started", tc.wantStarted, d.Status.StartTime != nil)
			if !tc.wantStarted {
				diff(t, "whether a replica is ready", false, !strings.HasPrefix(d.Status.Ready, "0/"))
				diff(t, "counts of the copy", int32(0), d.Status.Evictions+d.Status.BackoffCount)
			}
		})
	}
}
