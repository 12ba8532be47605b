package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

const (
	// annotationUncounted marks a copy of a pod, or a claim in the cache, if the number of its devices is not known. On
	// a pod, the value of the annotation names the claim whose devices cannot be counted.
	annotationUncounted = "scheduler.tensorstack.dev/uncounted"
	// maxClaims limits the ResourceClaims of a pod, maxClasses limits the DeviceClasses of a claim, and maxReleased
	// limits the bytes of AnnotationReleased. If the quota limits devices, a pod that exceeds one of these limits is not
	// released.
	maxClaims   = 16
	maxClasses  = 32
	maxReleased = 256
	// maxDevices is the maximum number of devices that a claim can get.
	maxDevices = resourcev1.AllocationResultsMaxSize
	// claimDelay is how soon a queue is requeued while the devices of a gated pod are not known, for example because a
	// claim does not exist.
	claimDelay = 5 * time.Second
)

// devicesOfClass returns the name of the resource that stands for the devices of a DeviceClass in a quota. A
// ResourceQuota uses the same name.
func devicesOfClass(class string) corev1.ResourceName {
	return corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
}

// isOfClass reports whether a resource stands for the devices of a DeviceClass.
func isOfClass(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// limitsDevices reports whether the quota of a queue limits the devices of at least one DeviceClass. For other
// queues, the controller reads no claims.
func limitsDevices(queue *v1beta1.Queue) bool {
	return queue != nil && slices.ContainsFunc(slices.Collect(maps.Keys(quotaOf(queue))), isOfClass)
}

func largest(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// releasedValue returns the value of AnnotationReleased for a pod that is released. It is a JSON map from each
// DeviceClass to the number of its devices in the pod, or "true" if no devices of the pod are counted.
func releasedValue(pod *corev1.Pod) string {
	devices := map[string]int64{}
	for name, n := range requestsOf(pod) {
		if class, isDevices := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass); isDevices {
			devices[class] = n.Value()
		}
	}
	if len(devices) == 0 {
		return "true"
	}
	value, err := json.Marshal(devices)
	if err != nil {
		panic(err) // a map of numbers can always be encoded
	}
	return string(value)
}

// releasedDevices returns the devices in the value of AnnotationReleased. Nil if the pod was not released, or if the
// value has no devices.
func releasedDevices(pod *corev1.Pod) corev1.ResourceList {
	var devices map[string]int64
	if !wasReleased(pod) || json.Unmarshal([]byte(pod.Annotations[v1beta1.AnnotationReleased]), &devices) != nil {
		return nil
	}
	released := corev1.ResourceList{}
	for class, n := range devices {
		released[devicesOfClass(class)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return released
}

// fromTemplate stands for the name of a ResourceClaim that has not been created from its template yet. No claim can
// have this name.
const fromTemplate = "of a template"

// claimsOf returns the names of the ResourceClaims of a pod. The name is fromTemplate for a claim that has not been
// created yet. A claim that Kubernetes does not create, because the pod does not need it, is omitted.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, claim := range pod.Spec.ResourceClaims {
		name := claim.ResourceClaimName
		isNeeded := true
		for _, status := range pod.Status.ResourceClaimStatuses {
			if name == nil && status.Name == claim.Name {
				name, isNeeded = status.ResourceClaimName, status.ResourceClaimName != nil
			}
		}
		switch {
		case name != nil:
			names = append(names, *name)
		case isNeeded:
			names = append(names, fromTemplate)
		}
	}
	return names
}

// devicesOf returns the largest number of devices that a claim can get of each DeviceClass. A ResourceQuota counts
// the same numbers. For a number above maxDevices, devicesOf returns maxDevices, so that sums do not overflow.
func devicesOf(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	var sum corev1.ResourceList
	for _, request := range claim.Spec.Devices.Requests {
		most := corev1.ResourceList{}
		count := func(class string, mode resourcev1.DeviceAllocationMode, count int64) {
			if mode == resourcev1.DeviceAllocationModeAll {
				count = maxDevices
			}
			name := devicesOfClass(class)
			most[name] = largest(most[name], *resource.NewQuantity(min(count, maxDevices), resource.DecimalSI))
		}
		if request.Exactly != nil {
			count(request.Exactly.DeviceClassName, request.Exactly.AllocationMode, request.Exactly.Count)
		}
		for _, sub := range request.FirstAvailable {
			count(sub.DeviceClassName, sub.AllocationMode, sub.Count)
		}
		sum = add(sum, most)
	}
	for name, n := range sum {
		sum[name] = *resource.NewQuantity(min(n.Value(), maxDevices), resource.DecimalSI)
	}
	return sum
}

// uncounted returns the first pod whose number of devices is not known, and the name of the claim whose devices
// cannot be counted. Nil if the devices of all pods are known.
func uncounted(pods []*corev1.Pod) (pod *corev1.Pod, claim string) {
	for _, pod := range pods {
		if claim := pod.Annotations[annotationUncounted]; claim != "" {
			return pod, claim
		}
	}
	return nil, ""
}

// stripClaim replaces the spec of a claim with one request for each DeviceClass. The count of a request is the
// largest number of devices of the class that the claim can get. If the claim has too many classes, stripClaim keeps
// no requests and sets annotationUncounted.
func stripClaim(claim *resourcev1.ResourceClaim) {
	isUncounted := claim.Annotations[annotationUncounted] != ""
	devices := devicesOf(claim)
	claim.ObjectMeta = metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	claim.Spec, claim.Status = resourcev1.ResourceClaimSpec{}, resourcev1.ResourceClaimStatus{}
	if isUncounted || !fits(devices, maxClasses) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, annotationUncounted, "true")
		return
	}
	for name, n := range devices {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{
			Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: strings.TrimSuffix(string(name), corev1.ResourceClaimsPerClass),
				AllocationMode:  resourcev1.DeviceAllocationModeExactCount, Count: n.Value(),
			},
		})
	}
}
