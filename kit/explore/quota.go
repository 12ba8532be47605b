package explore

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// quotaExplorations returns the small jobs in namespaces whose ResourceQuota can have too little room for their pods.
func quotaExplorations() []exploration {
	return []exploration{
		{
			name:     "a job that restarts as a whole gives back what a ResourceQuota keeps it from using",
			shape:    model.UnderQuota(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)), 2),
			failures: []string{"fails"}, edits: []edit{takesQuota, freesQuota},
			budget: spent{failures: 1, edits: 2, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "an elastic job gives back what it cannot use of a ResourceQuota, and trains with less",
			shape:    model.UnderQuota(model.Elastic(2, 3, "", model.Limit(1)), 3),
			failures: []string{"fails"}, edits: []edit{takesQuota, freesQuota},
			budget: spent{failures: 1, edits: 2, crashes: 1}, inTurn: true,
		},
	}
}

var (
	takesQuota = edit{
		name: "lets another job take the room for a pod from the quota",
		may: func(s *state) bool {
			room, ok := s.live.Objects.Room()
			return ok && room > 0
		},
		do: func(m *machine) { m.cluster(func(c *model.Cluster) { c.SetUsedByOthers(c.Live().UsedByOthers() + 1) }) },
	}
	freesQuota = edit{
		name: "lets the other jobs end",
		may:  func(s *state) bool { return s.live.Objects.UsedByOthers() > 0 },
		do:   func(m *machine) { m.cluster(func(c *model.Cluster) { c.SetUsedByOthers(0) }) },
	}
)

// isQuota reports whether an object is a ResourceQuota.
func isQuota(object client.Object) bool {
	_, ok := object.(*corev1.ResourceQuota)
	return ok
}

// waitsForQuota reports whether the job reports that a ResourceQuota has no room for its pods.
func waitsForQuota(s *state) bool {
	job := s.live.Objects.Job()
	if job == nil || job.JobStatus().Decided() {
		return false
	}
	c := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionInitialized)
	return c != nil && c.Reason == batchv1beta1.ReasonResourceQuotaExceeded
}

// checkQuota returns the violations of a job at rest that waits for a ResourceQuota. Such a job keeps no pod that it
// cannot use, and waits only if there is no room for the pods that it needs.
func (s *state) checkQuota(spec framework.JobSpec) []string {
	if !waitsForQuota(s) || spec.RunMode.Pausing() {
		return nil
	}
	var wrong []string
	needed, pods := model.CountReplicas(spec), len(s.live.Objects.Pods())
	if spec.Elastic != nil {
		needed = int(spec.Elastic.Least())
	}
	hasEnded := slices.ContainsFunc(s.live.Objects.Pods(), policy.Ended) // if so, the job may keep the other pods
	if pods > 0 && pods < needed && !hasEnded {
		wrong = append(wrong, fmt.Sprintf("the job needs %d pods to train, and keeps %d while a ResourceQuota refuses others",
			needed, pods))
	}
	if room, _ := s.live.Objects.Room(); int(room) >= model.CountReplicas(spec)-pods {
		wrong = append(wrong, fmt.Sprintf("the job waits for a ResourceQuota that has room for %d pods", room))
	}
	return wrong
}

// quota adds the creation times of pods to the encoding of a state, because the controller deletes pods that the job
// cannot use some time after their creation.
func (e *encoder) quota(s *state) {
	if s.shape.Quota == 0 {
		return
	}
	e.text("created ")
	pods := slices.Concat(s.live.Objects.Pods(), s.Cache.Shown().Pods())
	for _, pod := range pods {
		e.tokens = append(e.tokens, token{at: pod.CreationTimestamp.Unix(), past: quotaMatters})
	}
}

// quotaMatters is the number of seconds after which the creation time of a pod no longer matters.
const quotaMatters = int64(policy.QuotaPatience/time.Second) + 1
