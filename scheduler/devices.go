package scheduler

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

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
	// maxClaims is how many ResourceClaims of a pod are counted. maxClasses is how many DeviceClasses of a claim are
	// counted, and maxReleased is the length of what AnnotationReleased records about the devices of a pod. A pod with
	// more is not released if the quota limits devices.
	maxClaims   = 16
	maxClasses  = 32
	maxReleased = 256
	// maxDevices is the number of devices that a claim can get.
	maxDevices = resourcev1.AllocationResultsMaxSize
	// claimDelay is after how long a queue is reconciled again while the claim of a gated pod does not exist.
	claimDelay = 5 * time.Second
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

// countDevices replaces the pods of the queue that have ResourceClaims by copies that also request the devices of their
// claims, as far as the quota limits them. A claim that several pods share counts for each of them. A released pod
// counts at least the devices that it had when it was released, since a tenant can delete a claim and create it again.
func (r *reconciler) countDevices(ctx context.Context, view *queueView) error {
	if !limitsDevices(view.Queue) {
		return nil
	}
	c := deviceCounter{reader: r.client, quota: quotaOf(view.Queue), claims: map[client.ObjectKey]claimed{}}
	lists := [][]*corev1.Pod{view.Orphans}
	for _, g := range view.selected() {
		lists = append(lists, g.Pods)
	}
	for _, pods := range lists {
		for i, pod := range pods {
			counted, err := c.count(ctx, pod)
			if err != nil {
				return err
			}
			pods[i] = counted
			if isGated(counted) && counted.Annotations[annotationUncounted] != "" {
				view.requeueWithin(claimDelay)
			}
		}
	}
	return nil
}

// deviceCounter counts the devices of pods that a quota limits. It reads each claim only once.
type deviceCounter struct {
	reader client.Reader
	quota  corev1.ResourceList
	claims map[client.ObjectKey]claimed
}

// claimed is the devices of a claim that the quota limits, and whether they are known.
type claimed struct {
	devices corev1.ResourceList
	isKnown bool
}

// count returns a copy of the pod that also requests the devices of its claims, or the pod if it has none.
func (c deviceCounter) count(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	released := releasedDevices(pod)
	if len(pod.Spec.ResourceClaims) == 0 && len(released) == 0 {
		return pod, nil
	}
	counted := pod.DeepCopy()
	var sum corev1.ResourceList
	for i, name := range claimsOf(pod) {
		claim, err := c.claim(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if !claim.isKnown || i >= maxClaims {
			metav1.SetMetaDataAnnotation(&counted.ObjectMeta, annotationUncounted, name)
		}
		sum = add(sum, claim.devices)
	}
	requests, ofContainers := corev1.ResourceList{}, requestsOf(pod)
	for name := range c.quota {
		ofClaims := released[name]
		ofClaims.Sub(ofContainers[name])
		if most := largest(sum[name], ofClaims); isOfClass(name) && most.Sign() > 0 {
			requests[name] = most
		}
	}
	counted.Spec.Containers = append(counted.Spec.Containers,
		corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}})
	if len(releasedValue(counted)) > maxReleased {
		metav1.SetMetaDataAnnotation(&counted.ObjectMeta, annotationUncounted, "of a class with a long name")
	}
	return counted, nil
}

func largest(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// claim returns the devices of a claim that the quota limits.
func (c deviceCounter) claim(ctx context.Context, key client.ObjectKey) (claimed, error) {
	if found, ok := c.claims[key]; ok {
		return found, nil
	}
	object := &resourcev1.ResourceClaim{}
	err := c.reader.Get(ctx, key, object, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return claimed{}, err
	}
	devices := devicesOf(object)
	maps.DeleteFunc(devices, func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, isLimited := c.quota[name]
		return !isLimited
	})
	found := claimed{devices: devices, isKnown: err == nil && object.Annotations[annotationUncounted] == ""}
	c.claims[key] = found
	return found, nil
}

// releasedValue returns the value of AnnotationReleased for a pod that is released: the number of its devices by
// DeviceClass, or "true" if the quota does not limit its devices.
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
		panic(err) // numbers are JSON
	}
	return string(value)
}

// releasedDevices returns the devices in the value of AnnotationReleased.
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

// devicesOf returns the largest number of devices that a claim can get of each DeviceClass. It is the number that a
// ResourceQuota counts, but not more than a claim can get, so that sums do not overflow.
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
