package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/phases"
)

// States of groups in the metrics. docs/operate/metrics.md documents them.
const (
	stateQueued     = "Queued"     // the queue has not admitted the group
	stateScheduling = "Scheduling" // the group is admitted and waits for its pods or for nodes
	stateScheduled  = "Scheduled"  // the pods that the group needs are on nodes
)

var (
	descGroups = prometheus.NewDesc("tensorstack_pod_groups", "PodGroups by queue and state.",
		[]string{"queue", "state"}, nil)
	descAllocated = prometheus.NewDesc("tensorstack_queue_allocated",
		"Resources requested by the pods of a queue that are on nodes and have not ended.",
		[]string{"queue", "resource"}, nil)
	descQuota = prometheus.NewDesc("tensorstack_queue_quota",
		"Quota of a queue: the most of a resource that its pods can have allocated.", []string{"queue", "resource"}, nil)
)

// collector implements prometheus.Collector. It computes the metrics of queues and groups from the cache at each
// scrape.
type collector struct {
	reader client.Reader
	// elected is closed once this process is the leader. Only the leader exposes the metrics. Otherwise, a sum over the
	// pods of the controller would count each group several times.
	elected <-chan struct{}
}

func newCollector(mgr ctrl.Manager) *collector {
	return &collector{reader: mgr.GetCache(), elected: mgr.Elected()}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descGroups
	descriptions <- descAllocated
	descriptions <- descQuota
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	var queues v1beta1.QueueList
	var groups v1beta1.PodGroupList
	if !phases.List(c.elected, c.reader, &queues, &groups) {
		return
	}
	type key struct{ queue, state string }
	count := map[key]int{}
	for _, queue := range queues.Items {
		for _, state := range []string{stateQueued, stateScheduling, stateScheduled} {
			count[key{queue.Name, state}] = 0
		}
		send(metrics, descAllocated, queue.Name, queue.Status.Allocated)
		if queue.Spec.Quota != nil {
			send(metrics, descQuota, queue.Name, queue.Spec.Quota.Requests)
		}
	}
	for i := range groups.Items {
		k := key{groups.Items[i].Spec.Queue, stateOf(&groups.Items[i])}
		// Any tenant can name any queue. If the queue does not exist or does not select the group, the group counts under
		// the empty name. So wrong names do not create new time series.
		if _, known := count[key{k.queue, stateQueued}]; !known || !isSelected(&groups.Items[i]) {
			k.queue = ""
		}
		count[k]++
	}
	for k, n := range count {
		metrics <- prometheus.MustNewConstMetric(descGroups, prometheus.GaugeValue, float64(n), k.queue, k.state)
	}
}

func send(metrics chan<- prometheus.Metric, desc *prometheus.Desc, queue string, resources corev1.ResourceList) {
	for name, quantity := range resources {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, quantity.AsApproximateFloat64(), queue,
			string(name))
	}
}

// isSelected reports whether the queue of a group selects the namespace of the group, according to the status of the
// group. While the status has no condition Admitted, for example before the first reconcile, isSelected returns true.
func isSelected(group *v1beta1.PodGroup) bool {
	admitted := meta.FindStatusCondition(group.Status.Conditions, v1beta1.ConditionAdmitted)
	return admitted == nil || admitted.Reason != v1beta1.ReasonNamespaceNotSelected
}

// stateOf returns the state of a group in the metrics.
func stateOf(group *v1beta1.PodGroup) string {
	switch conditions := group.Status.Conditions; {
	case !meta.IsStatusConditionTrue(conditions, v1beta1.ConditionAdmitted):
		return stateQueued
	case !meta.IsStatusConditionTrue(conditions, v1beta1.ConditionGroupScheduled):
		return stateScheduling
	default:
		return stateScheduled
	}
}
