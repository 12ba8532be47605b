package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// Limits of the devices in a failure.
const (
	// MaxDevices is the maximum number of devices that a failure lists.
	MaxDevices = 16
	// maxDeviceName is the maximum length, in bytes, of a resource name or a device ID that a failure lists.
	maxDeviceName = 128
)

// UnhealthyDevices returns the devices of a pod that its kubelet reports as unhealthy, sorted by resource and ID. It
// returns at most 16. It omits a device whose health is unknown, because its device plugin might be restarting. It
// omits the devices of containers that have ended, except the main container: a device might have ended the main
// container.
//
// The kubelet reports the health of devices from Kubernetes 1.36 on, see https://kep.k8s.io/4680.
func UnhealthyDevices(pod *corev1.Pod, mainContainer string) []batchv1beta1.UnhealthyDevice {
	if pod == nil {
		return nil
	}
	var devices []batchv1beta1.UnhealthyDevice
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Terminated != nil && container.Name != mainContainer {
			continue
		}
		for _, resource := range container.AllocatedResourcesStatus {
			for _, device := range resource.Resources {
				if device.Health == corev1.ResourceHealthStatusUnhealthy {
					devices = append(devices, batchv1beta1.UnhealthyDevice{
						Resource: report.Truncated(string(resource.Name), maxDeviceName),
						ID:       report.Truncated(string(device.ResourceID), maxDeviceName),
					})
				}
			}
		}
	}
	slices.SortFunc(devices, func(a, b batchv1beta1.UnhealthyDevice) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.ID, b.ID))
	})
	devices = slices.Compact(devices) // containers of a pod can share a device
	return devices[:min(len(devices), MaxDevices)]
}

// DeviceFailure returns the failure of a replica that has the given unhealthy devices, although its main container
// has not ended. The time of the failure is unknown, because the kubelet does not report when a device became
// unhealthy.
func DeviceFailure(devices []batchv1beta1.UnhealthyDevice) Failure {
	return Failure{Reason: batchv1beta1.ReasonDeviceUnhealthy, Devices: devices, Ignored: true}
}

// isOfDevice reports whether an unhealthy device caused the failure.
func (f Failure) isOfDevice() bool { return f.Reason == batchv1beta1.ReasonDeviceUnhealthy }

// Cause returns the reason of the failure. If unhealthy devices are the reason, their names follow.
func (f Failure) Cause() string {
	if !f.isOfDevice() {
		return f.Reason
	}
	return f.Reason + ": " + namesOf(f.Devices)
}

// namesOf returns the names of devices as text, for example "GPU-1 (nvidia.com/gpu), GPU-2 (nvidia.com/gpu)".
func namesOf(devices []batchv1beta1.UnhealthyDevice) string {
	names := make([]string, 0, len(devices))
	for _, device := range devices {
		names = append(names, fmt.Sprintf("%s (%s)", device.ID, device.Resource))
	}
	return strings.Join(names, ", ")
}

// RecordsDevice reports whether two statuses have different lists of failures, and the second list contains a failure
// that an unhealthy device caused.
func RecordsDevice(before, after batchv1beta1.JobStatus) bool {
	isOfDevice := func(f batchv1beta1.ReplicaFailure) bool { return f.Reason == batchv1beta1.ReasonDeviceUnhealthy }
	if !slices.ContainsFunc(after.Failures, isOfDevice) {
		return false
	}
	return !equality.Semantic.DeepEqual(before.Failures, after.Failures)
}

// IsNodeFault reports whether the reason of a failure means that the node or one of its devices caused the failure.
// Such a failure does not count towards backoffLimit. An exit code is no evidence of a fault of the node: for
// example, a program with a missing import fails on every node.
func IsNodeFault(reason string) bool {
	switch reason {
	case batchv1beta1.ReasonNodeLost, batchv1beta1.ReasonDeviceUnhealthy, batchv1beta1.ReasonDeviceTainted:
		return true
	default:
		return false
	}
}
