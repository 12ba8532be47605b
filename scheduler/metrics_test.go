package scheduler

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// groupIn returns a group in a queue. The given conditions are True.
func groupIn(queue, name string, conditions ...string) *v1beta1.PodGroup {
	group := &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: v1beta1.PodGroupSpec{MinMember: 1, Queue: queue},
	}
	for _, condition := range conditions {
		group.Status.Conditions = append(group.Status.Conditions,
			metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
	}
	return group
}

func collectorOf(t *testing.T, objects ...client.Object) *collector {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	leads := make(chan struct{})
	close(leads)
	return &collector{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), elected: leads}
}

func TestMetricsOfQueuesAndGroups(t *testing.T) {
	t.Parallel()
	lab := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "lab"},
		Spec: v1beta1.QueueSpec{Quota: &v1beta1.QueueQuota{Requests: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("1Ki"),
		}}},
		Status: v1beta1.QueueStatus{
			Allocated: corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse("12"), corev1.ResourceCPU: resource.MustParse("1500m"),
			},
		},
	}
	unselected := groupIn("lab", "of-a-namespace-that-is-not-selected")
	unselected.Status.Conditions = []metav1.Condition{{
		Type: v1beta1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNamespaceNotSelected,
	}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectorOf(t, lab,
		groupIn("lab", "waits"),
		groupIn("lab", "is-placed", v1beta1.ConditionAdmitted),
		groupIn("lab", "runs", v1beta1.ConditionAdmitted, v1beta1.ConditionGroupScheduled),
		groupIn("lab", "runs-too", v1beta1.ConditionAdmitted, v1beta1.ConditionGroupScheduled),
		groupIn("gone", "orphan"),
		groupIn("never", "another"),
		unselected,
	))
	want := `
# HELP tensorstack_pod_groups PodGroups by queue and state.
# TYPE tensorstack_pod_groups gauge
tensorstack_pod_groups{queue="",state="Queued"} 3
tensorstack_pod_groups{queue="lab",state="Queued"} 1
tensorstack_pod_groups{queue="lab",state="Scheduled"} 2
tensorstack_pod_groups{queue="lab",state="Scheduling"} 1
# HELP tensorstack_queue_allocated Resources requested by the pods of a queue that are on nodes and have not ended.
# TYPE tensorstack_queue_allocated gauge
tensorstack_queue_allocated{queue="lab",resource="cpu"} 1.5
tensorstack_queue_allocated{queue="lab",resource="nvidia.com/gpu"} 12
# HELP tensorstack_queue_quota Quota of a queue: the most of a resource that its pods can have allocated.
# TYPE tensorstack_queue_quota gauge
tensorstack_queue_quota{queue="lab",resource="memory"} 1024
tensorstack_queue_quota{queue="lab",resource="nvidia.com/gpu"} 16
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("linting the metrics found %v, error: %v", problems, err)
	}
}

func TestOnlyTheLeaderReportsMetrics(t *testing.T) {
	t.Parallel()
	c := collectorOf(t, groupIn("lab", "waits"))
	c.elected = make(chan struct{})
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("a replica that is not the leader reports %d metrics, want none", n)
	}
}
