package scheduler

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/policy"
)

// countDevices replaces each pod of the queue that has ResourceClaims with a copy that also requests the devices of
// its claims. Only devices that the quota limits are counted. A claim that several pods share counts for each of
// them. A tenant can delete a claim and create it again with fewer devices. So the copy of a released pod requests at
// least the devices that the pod had when it was released.
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
				view.RequeueAt = policy.Earlier(view.RequeueAt, r.clock.Now().Add(claimDelay))
			}
		}
	}
	return nil
}

// deviceCounter counts the devices of pods, for each DeviceClass that the quota limits. It reads each claim only
// once.
type deviceCounter struct {
	reader client.Reader
	quota  corev1.ResourceList
	claims map[client.ObjectKey]claimed
}

// claimed has the numbers of devices of a claim, one for each DeviceClass that the quota limits. If isKnown is false,
// these numbers are not known.
type claimed struct {
	devices corev1.ResourceList
	isKnown bool
}

// count returns a copy of the pod that also requests the devices of its claims. It returns the pod itself if the pod
// has no claims and AnnotationReleased records no devices.
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

// claim returns the number of devices of a claim, for each DeviceClass that the quota limits.
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
