package admission_test

import (
	"testing"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
)

func TestTheEventOfAnEvictionHasItsReason(t *testing.T) {
	t.Parallel()
	seen := withWorkload(workload(admittedFor(2), evicted("Preempted")),
		run()[0], pod("job-worker-1", byWorkload, onNode("a"), exited(1)))
	var stopped []string
	for _, e := range plan.Decide(ran().Job, seen, now).Events {
		if e.Reason == batchv1beta1.EventStopped {
			stopped = append(stopped, e.Message)
		}
	}
	diff(t, "messages", []string{
		"Kueue has evicted the workload of the job (Preempted): another job needs the quota",
	}, stopped)
}
