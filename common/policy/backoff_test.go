package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestBackoffLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit        *int32
		backoffCount int32
		want         bool
	}{
		"a new job can restart":                                {limit: ptr.To[int32](2), backoffCount: 0, want: true},
		"a limit of 2 allows a second restart":                 {limit: ptr.To[int32](2), backoffCount: 1, want: true},
		"a limit of 2 allows no third restart":                 {limit: ptr.To[int32](2), backoffCount: 2, want: false},
		"a limit that was lowered below the count is exceeded": {limit: ptr.To[int32](1), backoffCount: 2, want: false},
		"a limit of 0 allows no restart":                       {limit: ptr.To[int32](0), backoffCount: 0, want: false},
		"the default limit allows a third restart":             {backoffCount: 2, want: true},
		"the default limit allows no fourth restart":           {backoffCount: 3, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := BackoffLeft(batchv1beta1.RunPolicy{BackoffLimit: tc.limit}, tc.backoffCount); got != tc.want {
				t.Errorf("BackoffLeft is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRestartDelay(t *testing.T) {
	t.Parallel()
	want := []time.Duration{
		0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second,
		6 * time.Minute, 6 * time.Minute,
	}
	var got []time.Duration
	for restart := range int32(len(want)) {
		got = append(got, RestartDelay(restart, "Error"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected delays of restarts 0 to 9 (-want +got):\n%s", diff)
	}
	if got := RestartDelay(1<<30, "Error"); got != 6*time.Minute {
		t.Errorf("restart 1<<30 waits %s, want 6m0s", got)
	}
}

// Before the restart, the scheduler must learn that the node has one device less. Otherwise it would select the node
// again.
func TestRestartDelayAfterAnUnhealthyDevice(t *testing.T) {
	t.Parallel()
	for restart, want := range map[int32]time.Duration{
		1: 15 * time.Second, 2: 15 * time.Second, 3: 20 * time.Second, 100: 6 * time.Minute,
	} {
		if got := RestartDelay(restart, batchv1beta1.ReasonDeviceUnhealthy); got != want {
			t.Errorf("restart %d waits %s, want %s", restart, got, want)
		}
	}
}

func TestRefusalDelay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ lasted, want time.Duration }{
		"a new rejection is retried after a second":              {lasted: 0, want: time.Second},
		"the delay equals the duration of the rejection":         {lasted: 20 * time.Second, want: 20 * time.Second},
		"a rejection that lasts an hour is retried every minute": {lasted: time.Hour, want: time.Minute},
		"a rejection in the future is retried after a second":    {lasted: -time.Hour, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RefusalDelay(tc.lasted); got != tc.want {
				t.Errorf("the delay is %s, want %s", got, tc.want)
			}
		})
	}
}
