package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestCapacityOfAQueueOfVolcano(t *testing.T) {
	t.Parallel()
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	requesting := func(name corev1.ResourceName) groupView {
		return newGroup("a", 1, newPod(func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse("1")}
		}))
	}
	quotaOf := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	for name, tc := range map[string]struct {
		quota  corev1.ResourceList
		named  corev1.ResourceList
		groups []groupView
		want   map[corev1.ResourceName]string
	}{
		"without a quota is that of the cluster":             {want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P"}},
		"is its quota, and of what that does not name, all":  {quota: quotaOf(gpu, "8"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P", gpu: "8"}},
		"counts what its pods request":                       {groups: []groupView{requesting(gpu)}, want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P", gpu: "5P"}},
		"counts what its pods have requested":                {named: quotaOf(gpu, "8"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P", gpu: "5P"}},
		"of nothing is next to nothing, since 0 is no limit": {quota: quotaOf("cpu", "0"), want: map[corev1.ResourceName]string{"cpu": "1m", "memory": "5P"}},
		"leaves out pods, which Volcano does not count":      {quota: quotaOf("pods", "3"), want: map[corev1.ResourceName]string{"cpu": "5P", "memory": "5P"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: tc.quota} })
			got := map[corev1.ResourceName]string{}
			for name, quantity := range capacityOf(queueView{Queue: queue, Groups: tc.groups}, tc.named) {
				got[name] = quantity.String()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected capacity (-want +got):\n%s", diff)
			}
		})
	}
}
