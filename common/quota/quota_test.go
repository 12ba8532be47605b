package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseRefusal(t *testing.T) {
	t.Parallel()
	const message = `creating pod digits-worker-1: pods "digits-worker-1" is forbidden: exceeded quota: team, requested: ` +
		`limits.memory=16Gi,pods=1, used: limits.memory=48Gi,pods=4, limited: limits.memory=48Gi,pods=4`
	got, ok := ParseRefusal(message)
	want := Refusal{
		Object: "digits-worker-1", Quota: "team", Requested: "limits.memory=16Gi,pods=1", Used: "limits.memory=48Gi,pods=4",
		Limited: "limits.memory=48Gi,pods=4",
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("unexpected refusal, ok is %t (-want +got):\n%s", ok, diff)
	}
	if diff := cmp.Diff(list("limits.memory", "16Gi", "pods", "1"), got.Requests()); diff != "" {
		t.Errorf("unexpected requests (-want +got):\n%s", diff)
	}
	unknown := Refusal{Requested: "cpu=much,pods=1"}
	if diff := cmp.Diff(list("pods", "1"), unknown.Requests()); diff != "" {
		t.Errorf("unexpected requests of a message with an unknown quantity (-want +got):\n%s", diff)
	}
	for _, other := range []string{
		`pods "digits-worker-0" is forbidden: failed quota: team: must specify limits.cpu for: main`,
		"older jobs of the namespace wait for room in the ResourceQuota team",
	} {
		if got, ok := ParseRefusal(other); ok {
			t.Errorf("the message %q has no refusal, got %v", other, got)
		}
	}
}

func TestUsageOf(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "3")}}},
		Containers: []corev1.Container{
			{Resources: corev1.ResourceRequirements{
				Requests: list("cpu", "2", "nvidia.com/gpu", "8"), Limits: list("nvidia.com/gpu", "8"),
			}},
			{Resources: corev1.ResourceRequirements{Requests: list("cpu", "500m", "memory", "1Gi")}},
		},
	}}
	want := list("pods", "1", "count/pods", "1", "cpu", "3", "requests.cpu", "3", "memory", "1Gi", "requests.memory",
		"1Gi", "nvidia.com/gpu", "8", "requests.nvidia.com/gpu", "8", "limits.nvidia.com/gpu", "8")
	if diff := cmp.Diff(want, UsageOf(pod)); diff != "" {
		t.Errorf("unexpected usage (-want +got):\n%s", diff)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	sum := list("pods", "1", "cpu", "1")
	Add(sum, list("pods", "1", "memory", "1Gi"), 3)
	want := list("pods", "4", "cpu", "1", "memory", "3Gi")
	if diff := cmp.Diff(want, sum, cmp.Comparer(resource.Quantity.Equal)); diff != "" {
		t.Errorf("unexpected sum (-want +got):\n%s", diff)
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	quota := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
		Hard: list("pods", "6", "cpu", "8", "memory", "500Ti"), Used: list("pods", "4", "cpu", "9", "memory", "1Ti"),
	}}
	want := list("pods", "2", "cpu", "-1", "memory", "499Ti")
	for range 2 { // Free must not change the ResourceQuota
		if diff := cmp.Diff(want, Free(quota), cmp.Comparer(resource.Quantity.Equal)); diff != "" {
			t.Errorf("unexpected room (-want +got):\n%s", diff)
		}
	}
}

// list returns a list of resources from names and quantities.
func list(pairs ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		resources[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return resources
}
