package policy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForceDeletion(t *testing.T) {
	t.Parallel()
	asked := metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		by      string
		deleted *metav1.Time
		delay   time.Duration
		want    time.Time
		wantOK  bool
	}{
		"a lost node": {
			by: "DeletionByTaintManager", deleted: &asked, delay: time.Minute, want: asked.Add(time.Minute), wantOK: true,
		},
		"a lost node, but never":          {by: "DeletionByTaintManager", deleted: &asked},
		"a lost node, but not yet":        {by: "DeletionByTaintManager", delay: time.Minute},
		"a pod that takes long to end":    {deleted: &asked, delay: time.Minute},
		"a preemption that takes a while": {by: "PreemptionByScheduler", deleted: &asked, delay: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podIn(corev1.PodRunning, runs("main"))
			if tc.by != "" {
				pod = disruptedBy(tc.by, pod)
			}
			pod.DeletionTimestamp = tc.deleted
			got, ok := ForceDeletion(pod, tc.delay)
			if !got.Equal(tc.want) || ok != tc.wantOK {
				t.Errorf("ForceDeletion is %v, %v, want %v, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}
