package dependents

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/report"
)

// wordsInterval is how long Kueue's message about a waiting Workload stays in the status of a job, even if Kueue has
// a newer message. Kueue's message changes with the jobs of others, and each change would be a status write.
const wordsInterval = 5 * time.Minute

// Words are the messages of Kueue that the statuses of jobs show. The zero value has none.
type Words struct{ PerJob[saying] }

type saying struct {
	reason, words string
	at            time.Time
}

// latest returns the message that the status of a job must show. The parameters now and at are Kueue's current
// message and the current time. latest returns the current message if it has another reason than the shown message,
// or if the shown message is older than wordsInterval. Otherwise it returns the shown message, and due is how long
// the current message must still wait. If the current message is empty, latest forgets the job.
func (s *Words) latest(
	job types.NamespacedName, now saying, at time.Time,
) (words string, due time.Duration) {
	last := s.Of(job)
	due = last.at.Add(wordsInterval).Sub(at)
	switch {
	case now.words == "":
		s.Forget(job)
		return "", 0
	case last.reason == now.reason && last.words == now.words:
		return last.words, 0
	case last.reason == now.reason && due > 0:
		return last.words, due
	default:
		now.at = at
		s.Set(job, now)
		return now.words, 0
	}
}

// wordsOf returns Kueue's message about why a Workload is not admitted. It is empty if the Workload is admitted.
func wordsOf(w *kueuev1beta2.Workload) saying {
	for _, conditionType := range []string{kueuev1beta2.ConditionQuotaReserved, kueuev1beta2.ConditionAdmitted} {
		c := meta.FindStatusCondition(w.Status.Conditions, conditionType)
		if c != nil && c.Status == metav1.ConditionFalse {
			return saying{reason: c.Reason, words: report.Truncated(c.Message, report.MaxNote)}
		}
	}
	if meta.IsStatusConditionTrue(w.Status.Conditions, kueuev1beta2.ConditionAdmitted) {
		return saying{}
	}
	var words []string // once quota is reserved, the Workload waits for its admission checks
	for _, check := range w.Status.AdmissionChecks {
		if check.State == kueuev1beta2.CheckPending && check.Message != "" {
			words = append(words, fmt.Sprintf("admission check %s: %s", check.Name, check.Message))
		}
	}
	return saying{reason: kueuev1beta2.CheckPending, words: report.Truncated(strings.Join(words, "; "), report.MaxNote)}
}
