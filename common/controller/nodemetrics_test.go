package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
)

func TestRestartsAreCountedByNode(t *testing.T) {
	t.Parallel()
	// The list many has one restart for each of maxNodes nodes. The restart of the first node is the oldest.
	many := make([]decide.Restart, 0, maxNodes)
	for i := range maxNodes {
		many = append(many, decide.Restart{Cause: "NodeLost", Node: fmt.Sprintf("node-%d", i)})
	}
	lost := func(node string) decide.Restart { return decide.Restart{Cause: "NodeLost", Node: node} }
	for name, tc := range map[string]struct {
		restarts []decide.Restart
		// want maps series to their expected values. The metric must have no other series, unless wantNodes is maxNodes.
		want map[string]float64
		// wantGone are series that must not exist.
		wantGone  []string
		wantNodes int
	}{
		"a restart that no node caused is not counted": {restarts: []decide.Restart{{Cause: "Error", Counted: true}}},
		"restarts of a node add up": {
			restarts:  []decide.Restart{lost("node-a"), lost("node-a")},
			want:      map[string]float64{"node-a NodeLost": 2},
			wantNodes: 1,
		},
		"each cause of a node has its own count": {
			restarts:  []decide.Restart{lost("node-a"), {Cause: "DeviceUnhealthy", Node: "node-a"}},
			want:      map[string]float64{"node-a NodeLost": 1, "node-a DeviceUnhealthy": 1},
			wantNodes: 1,
		},
		"each node has its own count": {
			restarts:  []decide.Restart{lost("node-a"), {Cause: "DeviceTainted", Node: "node-b"}, lost("node-a")},
			want:      map[string]float64{"node-a NodeLost": 2, "node-b DeviceTainted": 1},
			wantNodes: 2,
		},
		"as many nodes as the limit are all counted": {
			restarts: many, want: map[string]float64{"node-0 NodeLost": 1, "node-499 NodeLost": 1}, wantNodes: maxNodes,
		},
		"another node replaces the one whose last failure is the longest ago": {
			restarts:  append(slices.Clone(many), lost("node-new")),
			want:      map[string]float64{"node-1 NodeLost": 1, "node-new NodeLost": 1},
			wantGone:  []string{"node-0 NodeLost"},
			wantNodes: maxNodes,
		},
		"a node that fails again is not the oldest": {
			restarts:  append(slices.Clone(many), lost("node-0"), lost("node-new")),
			want:      map[string]float64{"node-0 NodeLost": 2, "node-2 NodeLost": 1, "node-new NodeLost": 1},
			wantGone:  []string{"node-1 NodeLost"},
			wantNodes: maxNodes,
		},
		"all causes of the oldest node are removed": {
			restarts: slices.Concat([]decide.Restart{{Cause: "DeviceUnhealthy", Node: "node-0"}}, many,
				[]decide.Restart{lost("node-new")}),
			wantGone:  []string{"node-0 NodeLost", "node-0 DeviceUnhealthy"},
			wantNodes: maxNodes,
		},
		"a node that was removed begins again at one": {
			restarts:  append(slices.Clone(many), lost("node-new"), lost("node-0")),
			want:      map[string]float64{"node-0 NodeLost": 1},
			wantGone:  []string{"node-1 NodeLost"},
			wantNodes: maxNodes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewPedanticRegistry()
			metrics, err := newJobMetrics(registry, "TestJob")
			if err != nil {
				t.Fatal(err)
			}
			for _, restart := range tc.restarts {
				metrics.observe(plan.Decision{Facts: decide.Facts{Restarts: []decide.Restart{restart}}})
			}
			got, nodes := restartsByNode(t, registry)
			for series, want := range tc.want {
				if got[series] != want {
					t.Errorf("%s = %v, want %v", series, got[series], want)
				}
			}
			for _, series := range tc.wantGone {
				if value, exists := got[series]; exists {
					t.Errorf("%s = %v, want no such series", series, value)
				}
			}
			if nodes != tc.wantNodes {
				t.Errorf("the metric has %d nodes, want %d", nodes, tc.wantNodes)
			}
			if tc.wantNodes < maxNodes && len(got) != len(tc.want) {
				t.Errorf("the metric has the series %v, want only %v", got, tc.want)
			}
		})
	}
}

// restartsByNode returns the values of the metric of restarts by node, and the number of nodes in that metric. The
// key of each value is the node and the cause, separated by a space.
func restartsByNode(t *testing.T, gatherer prometheus.Gatherer) (map[string]float64, int) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values, nodes := map[string]float64{}, map[string]bool{}
	for _, family := range families {
		if family.GetName() != metricNodes {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			values[labels["node"]+" "+labels["cause"]] = metric.GetCounter().GetValue()
			nodes[labels["node"]] = true
		}
	}
	return values, len(nodes)
}
