package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// quotaScenarios are scenarios of jobs in a namespace with a ResourceQuota.
var quotaScenarios = []scenario{
	{
		name:   "a job gives back the pod that it cannot use of a ResourceQuota, and starts when both fit",
		before: []step{limited(2), othersUse(1)},
		shape:  two(onFailure, scopeJob),
		late:   2 * time.Minute, // longer than the sum of policy.QuotaPatience and the longest backoff of pod creation
		steps: []step{
			passes(2 * time.Minute), reportsQuota, hasNoPods, othersUse(0), passes(2 * time.Minute), hasPod(0), hasPod(1), run,
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:   "an elastic job trains with the pods that a ResourceQuota allows, and grows later",
		before: []step{limited(2), othersUse(1)},
		shape:  elastic(1, 2, scopeReplica),
		late:   2 * time.Minute,
		steps: []step{
			run, passes(2 * time.Minute), hasPod(0), stands(batchv1beta1.JobPhaseRunning), othersUse(0),
			passes(2 * time.Minute), hasPod(1), run, exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}

// limited returns a step that creates a ResourceQuota for the given number of pods.
func limited(pods int64) step { return func(w *world) { w.create(model.NewQuota(pods)) } }

// othersUse returns a step after which the given number of pods of other jobs count towards the ResourceQuota.
func othersUse(pods int64) step { return func(w *world) { w.Cluster.SetUsedByOthers(pods) } }

// reportsQuota checks that the job reports that it waits for the ResourceQuota.
func reportsQuota(w *world) {
	w.t.Helper()
	if reason := w.job().JobStatus().Reason; reason != batchv1beta1.ReasonResourceQuotaExceeded {
		w.t.Errorf("the reason is %s, want %s: %s", reason, batchv1beta1.ReasonResourceQuotaExceeded, w.describe())
	}
}
