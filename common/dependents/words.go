package dependents

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/report"
)

// wordsInterval is how long the words of Kueue about a waiting Workload stay in the status of a job. They change with
// the jobs of others, so that each change would be a write.
const wordsInterval = 5 * time.Minute

// Words are the words of Kueue that jobs show. The zero value has none.
type Words struct {
	mu   sync.Mutex
	last map[types.NamespacedName]saying
}

// Forget forgets the words that a job shows.
func (s *Words) Forget(job types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, job)
}

type saying struct {
	reason, words string
	at            time.Time
}

// latest returns the words to show: the new ones if the reason has changed or the shown ones are old. If the new ones
// are not shown yet, it also returns when they are due. Without new words, it forgets the job.
func (s *Words) latest(
	job types.NamespacedName, now saying, at time.Time,
) (words string, due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.words == "" {
		delete(s.last, job)
		return "", 0
	}
	last, ok := s.last[job]
	due = last.at.Add(wordsInterval).Sub(at)
	switch {
	case ok && last.reason == now.reason && last.words == now.words:
		return last.words, 0
	case ok && last.reason == now.reason && due > 0:
		return last.words, due
	}
	if s.last == nil {
		s.last = map[types.NamespacedName]saying{}
	}
	now.at = at
	s.last[job] = now
	return now.words, 0
}

// wordsOf returns why a Workload is not admitted, in the words of Kueue.
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
	var words []string // once quota is reserved, the Workload waits for its checks
	for _, check := range w.Status.AdmissionChecks {
		if check.State == kueuev1beta2.CheckPending && check.Message != "" {
			words = append(words, fmt.Sprintf("admission check %s: %s", check.Name, check.Message))
		}
	}
	return saying{reason: kueuev1beta2.CheckPending, words: report.Truncated(strings.Join(words, "; "), report.MaxNote)}
}
