package policy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestExpiry(t *testing.T) {
	t.Parallel()
	finished := metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		ttl      *int32
		finished *metav1.Time
		want     time.Time
		wantOK   bool
	}{
		"no limit":                 {finished: &finished},
		"a job that has not ended": {ttl: ptr.To[int32](5)},
		"some seconds after the end": {
			ttl: ptr.To[int32](5), finished: &finished, want: finished.Add(5 * time.Second), wantOK: true,
		},
		"0 is at once": {ttl: ptr.To[int32](0), finished: &finished, want: finished.Time, wantOK: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Expiry(batchv1beta1.RunPolicy{TTLSecondsAfterFinished: tc.ttl}, tc.finished)
			if !got.Equal(tc.want) || ok != tc.wantOK {
				t.Errorf("Expiry is %v, %v, want %v, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}
