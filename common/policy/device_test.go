package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// using adds a device of the given health to the status of a container.
func using(
	status corev1.ContainerStatus, resource, id string, health corev1.ResourceHealthStatus,
) corev1.ContainerStatus {
	status.AllocatedResourcesStatus = append(status.AllocatedResourcesStatus, corev1.ResourceStatus{
		Name:      corev1.ResourceName(resource),
		Resources: []corev1.ResourceHealth{{ResourceID: corev1.ResourceID(id), Health: health}},
	})
	return status
}

const (
	gpu       = "nvidia.com/gpu"
	healthy   = corev1.ResourceHealthStatusHealthy
	unhealthy = corev1.ResourceHealthStatusUnhealthy
	unknown   = corev1.ResourceHealthStatusUnknown
)

func TestUnhealthyDevices(t *testing.T) {
	t.Parallel()
	type devices = []batchv1beta1.UnhealthyDevice
	var many, first devices
	manyGPUs := runs("main")
	for i := range 20 {
		id := fmt.Sprintf("GPU-%02d", i)
		manyGPUs = using(manyGPUs, gpu, id, unhealthy)
		many = append(many, batchv1beta1.UnhealthyDevice{Resource: gpu, ID: id})
	}
	first = many[:16]
	long := strings.Repeat("x", 300)
	cut := strings.Repeat("x", 125) + "..."
	for name, tc := range map[string]struct {
		containers []corev1.ContainerStatus
		want       devices
	}{
		"a container without devices has none": {containers: []corev1.ContainerStatus{runs("main")}},
		"a healthy device is not one": {
			containers: []corev1.ContainerStatus{using(runs("main"), gpu, "a", healthy)},
		},
		"a device whose plugin is not registered is not one": {
			containers: []corev1.ContainerStatus{using(runs("main"), gpu, "a", unknown)},
		},
		"an unhealthy device beside a healthy one is the one": {
			containers: []corev1.ContainerStatus{using(using(runs("main"), gpu, "a", healthy), gpu, "b", unhealthy)},
			want:       devices{{Resource: gpu, ID: "b"}},
		},
		"devices are sorted, since the kubelet lists them in any order": {
			containers: []corev1.ContainerStatus{
				using(using(using(runs("main"), "z.com/nic", "a", unhealthy), gpu, "b", unhealthy), gpu, "a", unhealthy),
			},
			want: devices{{Resource: gpu, ID: "a"}, {Resource: gpu, ID: "b"}, {Resource: "z.com/nic", ID: "a"}},
		},
		"a device that two containers share is listed once": {
			containers: []corev1.ContainerStatus{
				using(runs("main"), "claim:gpu", "driver/pool/a", unhealthy),
				using(runs("sidecar"), "claim:gpu", "driver/pool/a", unhealthy),
			},
			want: devices{{Resource: "claim:gpu", ID: "driver/pool/a"}},
		},
		"a device of a sidecar that runs is one": {
			containers: []corev1.ContainerStatus{runs("main"), using(runs("sidecar"), gpu, "a", unhealthy)},
			want:       devices{{Resource: gpu, ID: "a"}},
		},
		"a device of a sidecar that has ended is not one": {
			containers: []corev1.ContainerStatus{runs("main"), using(ends("sidecar", 0), gpu, "a", unhealthy)},
		},
		"a device of the main container is one even if that has ended": {
			containers: []corev1.ContainerStatus{using(ends("main", 1), gpu, "a", unhealthy)},
			want:       devices{{Resource: gpu, ID: "a"}},
		},
		"at most 16 devices are listed": {containers: []corev1.ContainerStatus{manyGPUs}, want: first},
		"long names are cut": {
			containers: []corev1.ContainerStatus{using(runs("main"), long, long, unhealthy)},
			want:       devices{{Resource: cut, ID: cut}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := UnhealthyDevices(podIn(corev1.PodRunning, tc.containers...), "main")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodThatDoesNotExistHasNoUnhealthyDevices(t *testing.T) {
	t.Parallel()
	if got := UnhealthyDevices(nil, "main"); got != nil {
		t.Errorf("the devices are %v, want none", got)
	}
}

// Judge decides whether an unhealthy device is the reason of a failure.
func TestFailureWithAnUnhealthyDevice(t *testing.T) {
	t.Parallel()
	type cause struct {
		ExitCode int32
		Cause    string
		Ignored  bool
		Detail   string
	}
	device := func(status corev1.ContainerStatus) corev1.ContainerStatus {
		return using(status, gpu, "GPU-1", unhealthy)
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want *cause
	}{
		"a program that still runs has not failed by itself": {pod: podIn(corev1.PodRunning, device(runs("main")))},
		"a program that succeeded has not failed":            {pod: podIn(corev1.PodSucceeded, device(ends("main", 0)))},
		"an error is caused by the device": {
			pod: podIn(corev1.PodFailed, device(endsFor("main", 1, "Error", "CUDA error: device lost"))),
			want: &cause{
				ExitCode: 1, Cause: "DeviceUnhealthy: GPU-1 (nvidia.com/gpu)", Ignored: true,
				Detail: "CUDA error: device lost",
			},
		},
		"a lack of memory is not caused by the device": {
			pod:  podIn(corev1.PodFailed, device(endsFor("main", 137, "OOMKilled", ""))),
			want: &cause{ExitCode: 137, Cause: "OOMKilled"},
		},
		"the reason of a disruption is more specific": {
			pod:  disruptedBy("DeletionByTaintManager", podIn(corev1.PodFailed, device(ends("main", 143)))),
			want: &cause{ExitCode: 143, Cause: "NodeLost", Ignored: true},
		},
		"a tainted device of a ResourceClaim has its own reason": {
			pod:  disruptedBy("DeletionByDeviceTaintManager", podIn(corev1.PodFailed, ends("main", 143))),
			want: &cause{ExitCode: 143, Cause: "DeviceTainted", Ignored: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *cause
			if f := Judge(tc.pod, "main", UnhealthyDevices(tc.pod, "main")).Failure; f != nil {
				got = &cause{ExitCode: ptr.Deref(f.ExitCode, 0), Cause: f.Cause(), Ignored: f.Ignored, Detail: f.Detail()}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected failure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeviceFailure(t *testing.T) {
	t.Parallel()
	devices := []batchv1beta1.UnhealthyDevice{{Resource: gpu, ID: "GPU-1"}}
	want := Failure{Reason: "DeviceUnhealthy", Devices: devices, Ignored: true}
	if diff := cmp.Diff(want, DeviceFailure(devices)); diff != "" {
		t.Errorf("unexpected failure (-want +got):\n%s", diff)
	}
}

func TestIsNodeFault(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		batchv1beta1.ReasonNodeLost:        true,
		batchv1beta1.ReasonDeviceUnhealthy: true,
		batchv1beta1.ReasonDeviceTainted:   true,
		batchv1beta1.ReasonError:           false,
		batchv1beta1.ReasonNodeShutdown:    false,
		batchv1beta1.ReasonEvicted:         false,
	} {
		if got := IsNodeFault(reason); got != want {
			t.Errorf("IsNodeFault(%s) is %v, want %v", reason, got, want)
		}
	}
}

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
