package controller

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxNodes is the maximum number of nodes in the metric of restarts by node. It bounds the number of series in a
// cluster that replaces its nodes.
const maxNodes = 500

// nodeMetrics counts restarts by the node that caused them.
type nodeMetrics struct {
	restarts *prometheus.CounterVec
	mutex    sync.Mutex
	// nodes are the nodes in the metric, ordered by the last restart that each of them caused, the oldest first.
	nodes []string
}

func newNodeMetrics(labels prometheus.Labels) *nodeMetrics {
	return &nodeMetrics{restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricNodes, ConstLabels: labels,
		Help: "Restarts of one replica, or of all replicas of a job together, that a node caused, by node and cause.",
	}, []string{"node", "cause"})}
}

// observe counts a restart that a node caused.
func (m *nodeMetrics) observe(node, cause string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.nodes = append(slices.DeleteFunc(m.nodes, func(name string) bool { return name == node }), node)
	if len(m.nodes) > maxNodes {
		m.restarts.DeletePartialMatch(prometheus.Labels{"node": m.nodes[0]})
		m.nodes = m.nodes[1:]
	}
	m.restarts.WithLabelValues(node, cause).Inc()
}
