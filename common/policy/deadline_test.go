package policy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		seconds *int64
		start   *metav1.Time
		want    time.Time
		wantOK  bool
	}{
		"the deadline counts from the start of the job": {
			seconds: ptr.To[int64](90), start: &metav1.Time{Time: start}, want: start.Add(90 * time.Second), wantOK: true,
		},
		"a job without activeDeadlineSeconds has no deadline": {start: &metav1.Time{Time: start}},
		"a job that has not started has no deadline":          {seconds: ptr.To[int64](90)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Deadline(batchv1beta1.RunPolicy{ActiveDeadlineSeconds: tc.seconds}, tc.start)
			if !got.Equal(tc.want) || ok != tc.wantOK {
				t.Errorf("Deadline is %s, %t; want %s, %t", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}
