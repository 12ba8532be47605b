package policy

import (
	"testing"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestRecordsDevice(t *testing.T) {
	t.Parallel()
	failures := func(reasons ...string) batchv1beta1.JobStatus {
		var status batchv1beta1.JobStatus
		for _, reason := range reasons {
			status.Failures = append(status.Failures, batchv1beta1.ReplicaFailure{Reason: reason})
		}
		return status
	}
	for name, tc := range map[string]struct {
		before, after batchv1beta1.JobStatus
		want          bool
	}{
		"a status without failures records no device": {},
		"the first failure can be of a device":        {after: failures("DeviceUnhealthy"), want: true},
		"another failure can be of a device": {
			before: failures("Error"), after: failures("DeviceUnhealthy", "Error"), want: true,
		},
		"a status with the same failures records no device": {
			before: failures("DeviceUnhealthy"), after: failures("DeviceUnhealthy"),
		},
		"a failure with another reason is not of a device": {
			before: failures("Error"), after: failures("NodeLost", "Error"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RecordsDevice(tc.before, tc.after); got != tc.want {
				t.Errorf("RecordsDevice returns %t, want %t", got, tc.want)
			}
		})
	}
}
