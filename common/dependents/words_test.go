package dependents

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// Kueue's message about a job changes with the jobs of others. The status of the job must not be written for each
// change.
func TestAJobShowsNewWordsOfKueueForANewReasonOrAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	s := &Words{}
	job := types.NamespacedName{Namespace: "ns", Name: "job"}
	start := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after         time.Duration
		reason, words string
		want          string
		wantDue       time.Duration
	}{
		{0, "Pending", "2 more are needed", "2 more are needed", 0},
		{time.Minute, "Pending", "1 more is needed", "2 more are needed", 4 * time.Minute},
		{2 * time.Minute, "Inadmissible", "the queue is stopped", "the queue is stopped", 0},
		{6 * time.Minute, "Inadmissible", "the queue is missing", "the queue is stopped", time.Minute},
		{7 * time.Minute, "Inadmissible", "the queue is missing", "the queue is missing", 0},
		{8 * time.Minute, "", "", "", 0},
		{9 * time.Minute, "Inadmissible", "the queue is stopped", "the queue is stopped", 0},
	} {
		got, due := s.latest(job, saying{reason: step.reason, words: step.words}, start.Add(step.after))
		if got != step.want || due != step.wantDue {
			t.Errorf("after %s, the job shows %q, and others in %s, want %q and %s", step.after, got, due, step.want,
				step.wantDue)
		}
	}
	s.Forget(job)
	if last := s.Of(job); last != (saying{}) {
		t.Errorf("a job that is gone is still known: %v", last)
	}
}

func TestWordsOf(t *testing.T) {
	t.Parallel()
	condition := func(name string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Pending", Message: message}
	}
	waits := condition(kueuev1beta2.ConditionQuotaReserved, metav1.ConditionFalse, "the quota is used")
	reserved := condition(kueuev1beta2.ConditionQuotaReserved, metav1.ConditionTrue, "")
	admitted := condition(kueuev1beta2.ConditionAdmitted, metav1.ConditionTrue, "")
	checks := []kueuev1beta2.AdmissionCheckState{
		{Name: "nodes", State: "Pending", Message: "2 exist"}, {Name: "budget", State: "Ready", Message: "yes"},
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"a Workload without quota waits for quota":      {[]metav1.Condition{waits}, "the quota is used"},
		"a Workload with quota waits for its checks":    {[]metav1.Condition{reserved}, "admission check nodes: 2 exist"},
		"a Workload that is admitted waits for nothing": {[]metav1.Condition{reserved, admitted}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := kueuev1beta2.WorkloadStatus{Conditions: tc.conditions, AdmissionChecks: checks}
			if got := wordsOf(&kueuev1beta2.Workload{Status: status}).words; got != tc.want {
				t.Errorf("the words are %q, want %q", got, tc.want)
			}
		})
	}
}
