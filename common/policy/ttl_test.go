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
		"a job without a TTL does not expire":         {finished: &finished},
		"a job that has not finished does not expire": {ttl: ptr.To[int32](5)},
		"a job with a TTL of 5 s expires 5 s after it finished": {
			ttl: ptr.To[int32](5), finished: &finished, want: finished.Add(5 * time.Second), wantOK: true,
		},
		"a job with a TTL of 0 expires immediately": {
			ttl: ptr.To[int32](0), finished: &finished, want: finished.Time, wantOK: true,
		},
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
