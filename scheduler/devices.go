package scheduler

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

const (
	// annotationUncounted marks a copy of a pod, or a claim in the cache, whose devices are not known. In a pod, the value
	// is the name of the claim.
	annotationUncounted = "scheduler.tensorstack.dev/uncounted"
	// maxClaims is more than the number of ResourceClaims of any pod. maxClasses is more than the number of DeviceClasses
	// of any claim.
	maxClaims  = 16
	maxClasses = 32
)

// devicesOfClass returns the name of the devices of a DeviceClass in a quota. It is the name that a ResourceQuota has.
func devicesOfClass(class string) corev1.ResourceName {
	return corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
}

// isOfClass reports whether a resource is the devices of a DeviceClass.
func isOfClass(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// limitsDevices reports whether the quota of a queue limits the devices of a DeviceClass. Only then are claims read.
func limitsDevices(queue *v1beta1.Queue) bool {
	if queue == nil {
		return false
	}
	for name := range quotaOf(queue) {
		if isOfClass(name) {
			return true
		}
	}
	return false
}

// countDevices replaces each pod that has ResourceClaims by a copy that also requests the devices of its claims. A
// claim that several pods share counts for each of them.
func (r *reconciler) countDevices(ctx context.Context, pods []*corev1.Pod) error {
	for i, pod := range pods {
		if len(pod.Spec.ResourceClaims) == 0 {
			continue
		}
		counted := pod.DeepCopy()
		devices := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for _, name := range claimsOf(pod) {
			claim := &resourcev1.ResourceClaim{}
			err := r.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim,
				client.DisableReadYourWritesConsistency)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if err != nil || claim.Annotations[annotationUncounted] != "" {
				metav1.SetMetaDataAnnotation(&counted.ObjectMeta, annotationUncounted, name)
			}
			devices.Resources.Requests = add(devices.Resources.Requests, devicesOf(claim))
		}
		counted.Spec.Containers = append(counted.Spec.Containers, devices)
		pods[i] = counted
	}
	return nil
}

// fromTemplate stands for the name of a ResourceClaim that was not created yet from its template. No claim has this
// name.
const fromTemplate = "of a template"

// claimsOf returns the names of the ResourceClaims of a pod.
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

// devicesOf returns the largest number of devices that a claim can get of each DeviceClass, like a ResourceQuota.
func devicesOf(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	var sum corev1.ResourceList
	for _, request := range claim.Spec.Devices.Requests {
		most := corev1.ResourceList{}
		count := func(class string, mode resourcev1.DeviceAllocationMode, count int64) {
			if mode == resourcev1.DeviceAllocationModeAll {
				count = resourcev1.AllocationResultsMaxSize
			}
			name := devicesOfClass(class)
			if n := *resource.NewQuantity(count, resource.DecimalSI); n.Cmp(most[name]) > 0 {
				most[name] = n
			}
		}
		if request.Exactly != nil {
			count(request.Exactly.DeviceClassName, request.Exactly.AllocationMode, request.Exactly.Count)
		}
		for _, sub := range request.FirstAvailable {
			count(sub.DeviceClassName, sub.AllocationMode, sub.Count)
		}
		sum = add(sum, most)
	}
	return sum
}

// uncounted returns the first of the pods whose devices are not known, and the name of the claim. Nil if there is none.
func uncounted(pods []*corev1.Pod) (pod *corev1.Pod, claim string) {
	for _, pod := range pods {
		if claim := pod.Annotations[annotationUncounted]; claim != "" {
			return pod, claim
		}
	}
	return nil, ""
}

// stripClaim keeps the number of devices of a claim, as one request for each DeviceClass.
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
